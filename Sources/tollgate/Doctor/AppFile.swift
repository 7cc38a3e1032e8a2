internal import Settings
internal import Wire

/// A file by which a reader, Apple or Google, knows the apps of a domain: what `tollgate doctor` says of the one that is served.
struct AppFile {
    /// Apple takes no larger one.
    private static let largest = 128 * 1024

    let reader: String
    let url: String
    /// The apps that the settings name, and those that the file has.
    let wanted: Set<String>
    let found: @Sendable (JSONTree) -> Set<String>

    var subject: String { "file \(url)" }

    /// The files of the settings at the domain of passkeys or, without them, of the public URL.
    static func all(_ settings: Configuration) -> [AppFile] {
        let host = settings.passkey?.rpID ?? settings.publicURL.split(separator: "/").dropFirst().first.map(String.init) ?? ""
        var files: [AppFile] = []
        if !settings.iosApps.isEmpty {
            files.append(
                AppFile(reader: "Apple", url: "https://\(host)\(AppFiles.applePath)", wanted: Set(settings.iosApps)) { file in
                    Set(file["webcredentials"]["apps"].elements.compactMap(\.text))
                })
        }
        if !settings.androidApps.isEmpty {
            let wanted = settings.androidApps.flatMap { app in app.fingerprints.map { "\(app.package) \(AppFiles.fingerprint($0))" } }
            files.append(AppFile(reader: "Google", url: "https://\(host)\(AppFiles.googlePath)", wanted: Set(wanted), found: androidApps))
        }
        return files
    }

    /// Each app and certificate whose statement has both relations.
    @Sendable private static func androidApps(_ file: JSONTree) -> Set<String> {
        let statements = file.elements.filter { Set(AppFiles.googleRelations).isSubset(of: $0["relation"].elements.compactMap(\.text)) }
        return Set(
            statements.flatMap { statement in
                statement["target"]["sha256_cert_fingerprints"].elements.compactMap(\.text).map {
                    "\(statement["target"]["package_name"].text ?? "") \($0.uppercased())"
                }
            })
    }

    func judgement(_ status: Int, contentType: String?, _ body: [UInt8]) -> Diagnosis {
        guard status == 200 else {
            let redirects = (300..<400).contains(status) ? ", and \(reader) follows no redirect" : ""
            return .fail(subject, "is answered with \(status)\(redirects): let that host answer it by this gateway")
        }
        let type = contentType?.prefix { $0 != ";" }.lowercased() ?? ""
        guard type == "application/json" else {
            return .fail(subject, "has the content type \(quoted(type)): \(reader) wants application/json")
        }
        guard body.count <= Self.largest else { return .fail(subject, "has more than 128 KiB: \(reader) takes no larger one") }
        // The file may be an array.
        guard let file = JSONTree((Array(#"{"file":"#.utf8) + body + Array("}".utf8)).rawBytes)?["file"], file != .null else {
            return .fail(subject, "is not JSON: let that host answer it by this gateway")
        }
        let missing = wanted.subtracting(found(file)).sorted()
        guard missing.isEmpty else {
            return .fail(
                subject, "lacks \(missing.joined(separator: ", ")): let that host answer it by this gateway, or add that to its file")
        }
        return .ok(subject, "names \(counted(wanted.count, "app")) as \(reader) reads it")
    }
}

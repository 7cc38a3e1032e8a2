import Foundation

/// A certificate authority and what it signs, made with the openssl command.
struct CertificateAuthority {
    let folder: Folder

    init(_ folder: Folder, name: String = "authority") throws {
        self.folder = folder
        try mustRun(
            "openssl",
            ["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=\(name)", "-keyout", folder.file("ca.key"), "-out", file]
                + Self.curve + ["-addext", "basicConstraints=critical,CA:TRUE"])
    }

    /// An intermediate one, whose certificate `issuer` signs.
    init(_ folder: Folder, name: String, under issuer: CertificateAuthority) throws {
        self.folder = folder
        let request = folder.file("ca.csr")
        try folder.write("ca.ext", "basicConstraints=critical,CA:TRUE\n")
        try mustRun(
            "openssl", ["req", "-new", "-nodes", "-subj", "/CN=\(name)", "-keyout", folder.file("ca.key"), "-out", request] + Self.curve)
        try mustRun(
            "openssl",
            [
                "x509", "-req", "-days", "30", "-in", request, "-CA", issuer.file, "-CAkey", issuer.folder.file("ca.key"),
                "-CAcreateserial", "-extfile", folder.file("ca.ext"), "-out", file,
            ])
    }

    var file: String { folder.file("ca.crt") }

    /// Puts its certificate in the place of another's.
    func replace(_ other: String) throws { try mustRun("mv", [file, other]) }

    private static let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]

    /// Makes `name.crt` and `name.key`, good for `names` like `DNS:localhost`; replaces them whole if they exist.
    ///
    /// Good for 30 days, or until so many seconds from now; `use` is its extended key usage.
    func issue(
        _ name: String, _ names: String..., subject: String? = nil, endsWithin seconds: Double? = nil, use: String? = nil
    ) throws {
        let request = folder.file(name + ".csr")
        try folder.write(name + ".ext", "subjectAltName=\(names.joined(separator: ","))\n" + (use.map { "extendedKeyUsage=\($0)\n" } ?? ""))
        let subject = "/CN=" + (subject ?? name)
        try mustRun(
            "openssl", ["req", "-new", "-nodes", "-subj", subject, "-keyout", folder.file(name + ".key.new"), "-out", request] + Self.curve)
        if let seconds {
            try sign(name, request, until: Date(timeIntervalSinceNow: seconds))
        } else {
            try mustRun(
                "openssl",
                [
                    "x509", "-req", "-days", "30", "-in", request, "-CA", file, "-CAkey", folder.file("ca.key"), "-CAcreateserial",
                    "-extfile", folder.file(name + ".ext"), "-out", folder.file(name + ".crt.new"),
                ])
        }
        for end in [".key", ".crt"] { try folder.write(name + end, try folder.read(name + end + ".new")) }
    }

    /// Only "openssl ca" takes dates; it wants a configuration and a database.
    private func sign(_ name: String, _ request: String, until end: Date) throws {
        let configuration = """
            [ca]
            default_ca = authority
            [authority]
            database = \(folder.file("index.txt"))
            new_certs_dir = \(folder.path)
            default_md = sha256
            rand_serial = yes
            policy = policy
            [policy]
            commonName = supplied

            """
        try folder.write("index.txt", "")
        try folder.write("ca.conf", configuration)
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(secondsFromGMT: 0)
        format.dateFormat = "yyyyMMddHHmmss'Z'"
        try mustRun(
            "openssl",
            [
                "ca", "-batch", "-notext", "-config", folder.file("ca.conf"), "-cert", file, "-keyfile", folder.file("ca.key"),
                "-startdate", "20200101000000Z", "-enddate", format.string(from: end), "-extfile", folder.file(name + ".ext"),
                "-in", request, "-out", folder.file(name + ".crt.new"),
            ])
    }
}

internal import Contracts
internal import HTTP
internal import Settings
internal import Wire

/// The files by which Apple and Google know which apps belong to a domain: for passkeys, for passwords that fill themselves in, and for
/// links that open in the app.
enum AppFiles {
    static let applePath = "/.well-known/apple-app-site-association"
    static let googlePath = "/.well-known/assetlinks.json"
    static let googleRelations = ["delegate_permission/common.get_login_creds", "delegate_permission/common.handle_all_urls"]

    /// Associated domains of iOS.
    static func apple(_ settings: Configuration) -> LocalResponse {
        response { json in
            json.beginObject()
            json.key("webcredentials")
            json.beginObject()
            json.array("apps", settings.iosApps) { $0.string($1) }
            json.endObject()
            if !settings.iosLinks.isEmpty {
                json.key("applinks")
                json.beginObject()
                json.array("details", [settings.iosLinks]) { json, links in
                    json.beginObject()
                    json.array("appIDs", settings.iosApps) { $0.string($1) }
                    json.array("components", links) { json, link in
                        json.beginObject()
                        json.field("/", link)
                        json.endObject()
                    }
                    json.endObject()
                }
                json.endObject()
            }
            json.endObject()
        }
    }

    /// Digital Asset Links of Android.
    static func google(_ settings: Configuration) -> LocalResponse {
        response { json in
            json.beginArray()
            for app in settings.androidApps {
                json.beginObject()
                json.array("relation", googleRelations) { $0.string($1) }
                json.key("target")
                json.beginObject()
                json.field("namespace", "android_app")
                json.field("package_name", app.package)
                json.array("sha256_cert_fingerprints", app.fingerprints) { $0.string(fingerprint($1)) }
                json.endObject()
                json.endObject()
            }
            json.endArray()
        }
    }

    /// A digest as certificates' tools show it: `AA:BB:…`.
    static func fingerprint(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined(separator: ":")
    }

    private static func response(_ write: (inout JSONWriter) -> Void) -> LocalResponse {
        var out = ByteBuffer()
        JSONWriter.append(to: &out, write)
        return LocalResponse(status: 200, contentType: "application/json", body: out.readable.array, fields: [ServerMetadata.caching])
    }
}

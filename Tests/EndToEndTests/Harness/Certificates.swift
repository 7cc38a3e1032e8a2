/// A certificate authority and what it signs, made with the openssl command.
struct CertificateAuthority {
    let folder: Folder

    init(_ folder: Folder) throws {
        self.folder = folder
        try mustRun(
            "openssl",
            ["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=authority", "-keyout", folder.file("ca.key"), "-out", file]
                + Self.curve + ["-addext", "basicConstraints=critical,CA:TRUE"])
    }

    var file: String { folder.file("ca.crt") }

    /// Puts its certificate in the place of another's.
    func replace(_ other: String) throws { try mustRun("mv", [file, other]) }

    private static let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]

    /// Makes `name.crt` and `name.key`, good for `names` like `DNS:localhost`; replaces them whole if they exist.
    func issue(_ name: String, _ names: String..., subject: String? = nil) throws {
        let request = folder.file(name + ".csr")
        try folder.write(name + ".ext", "subjectAltName=\(names.joined(separator: ","))\n")
        let subject = "/CN=" + (subject ?? name)
        try mustRun(
            "openssl", ["req", "-new", "-nodes", "-subj", subject, "-keyout", folder.file(name + ".key.new"), "-out", request] + Self.curve)
        try mustRun(
            "openssl",
            [
                "x509", "-req", "-days", "30", "-in", request, "-CA", file, "-CAkey", folder.file("ca.key"), "-CAcreateserial",
                "-extfile", folder.file(name + ".ext"), "-out", folder.file(name + ".crt.new"),
            ])
        for end in [".key", ".crt"] { try folder.write(name + end, try folder.read(name + end + ".new")) }
    }
}

import Wire

/// An issuer's keys.
package struct KeySet: Sendable {
    /// The maximum number of keys. A token is tried with `TokenVerifier.maximumTries` of those that fit it.
    package static let maximumKeys = 128

    package let keys: [VerificationKey]
    /// The most keys without a `kid` that fit one token, of which `TokenVerifier.maximumTries` are tried.
    package var namelessKeys: Int {
        SigningAlgorithm.allCases.map { algorithm in keys.count { $0.kid == nil && $0.algorithms.contains(algorithm) } }.max() ?? 0
    }
    /// The document's weak or broken keys, which are left out, each with the reason.
    package let refusals: [KeyFault]

    package init(_ keys: [VerificationKey]) {
        self.keys = keys
        refusals = []
    }

    /// Parses a JWK Set (RFC 7517 §5). Keys for other purposes and of unknown kinds are ignored; weak and broken ones go to
    /// `refusals`. A document without a usable key is a fault, so that it never replaces a good key set.
    package init(jwks: RawSpan) throws(KeyFault) {
        var document = JSONMembers()
        do throws(JSONMembers.Fault) {
            try document.load(jwks.withoutByteOrderMark)
        } catch {
            throw KeyFault("the key set is no JSON object with distinct members")
        }
        guard case .array(let slice)? = document["keys"] else { throw KeyFault("the key set has no array 'keys'") }
        var elements = JWKElements(document.source(slice))
        var keys: [VerificationKey] = []
        var refusals: [KeyFault] = []
        while let outcome = elements.next() {
            switch outcome {
            case .key(let key): keys.append(key)
            case .foreign: continue
            case .refused(let fault): refusals.append(fault)
            }
            guard keys.count <= Self.maximumKeys, refusals.count <= Self.maximumKeys else {
                throw KeyFault("the key set has more than \(Self.maximumKeys) keys")
            }
        }
        guard !keys.isEmpty else { throw refusals.first ?? KeyFault("the key set has no key that verifies signatures") }
        self.keys = keys
        self.refusals = refusals
    }

    /// Parses PEM blocks: public keys, private keys (only the public half is used) or certificates (only the key is used). Each
    /// key serves those of `algorithms` that fit it; a key that fits none is a fault.
    package init(pem: RawSpan, algorithms: AlgorithmSet = .asymmetric) throws(KeyFault) {
        var keys: [VerificationKey] = []
        for block in try PEMBlock.all(in: pem) {
            let name = "PEM block \(keys.count + 1)"
            guard let native = try block.key(named: name) else { throw KeyFault("\(name) (\(block.label)) is no key") }
            let material = try KeyMaterial(native, named: name)
            let usable = material.fitting.intersection(algorithms)
            guard !usable.isEmpty else { throw KeyFault("\(name) fits none of the algorithms that are allowed") }
            keys.append(try VerificationKey(material, kid: nil, algorithms: usable, named: name))
        }
        guard !keys.isEmpty else { throw KeyFault("there is no PEM block") }
        guard keys.count <= Self.maximumKeys else {
            throw KeyFault("there are more than \(Self.maximumKeys) PEM blocks")
        }
        self.init(keys)
    }

    /// Parses a file: a JWK Set if it begins with `{`, else PEM.
    package init(file bytes: RawSpan, algorithms: AlgorithmSet = .asymmetric) throws(KeyFault) {
        let file = bytes.withoutByteOrderMark
        var offset = 0
        while offset < file.byteCount && file[offset] <= 0x20 { offset += 1 }
        if offset < file.byteCount && file[offset] == UInt8(ascii: "{") {
            try self.init(jwks: file)
        } else {
            try self.init(pem: file, algorithms: algorithms)
        }
    }
}

extension RawSpan {
    /// The bytes behind the byte order mark of UTF-8 that some editors and servers write (RFC 8259 §8.1 allows to ignore it).
    fileprivate var withoutByteOrderMark: RawSpan {
        @_lifetime(copy self) get {
            if hasPrefix("\u{FEFF}") { return dropping(3) }
            return self
        }
    }
}

/// Iterator over the elements of the array `keys`, whose syntax has been checked.
private struct JWKElements: ~Copyable, ~Escapable {
    private var reader: JSONReader
    private var members = JSONMembers()
    private var position = 0

    @_lifetime(copy array)
    init(_ array: RawSpan) {
        reader = JSONReader(array)
        _ = Self.step(&reader)
    }

    @_lifetime(self: copy self)
    mutating func next() -> JWK.Outcome? {
        guard let token = Self.step(&reader), token != .endArray, token != .end else { return nil }
        position += 1
        let start = reader.offset - 1
        guard token == .beginObject else {
            while reader.depth > 1, Self.step(&reader) != nil {}
            return .refused(KeyFault("key number \(position) is no JSON object"))
        }
        while reader.depth > 1, Self.step(&reader) != nil {}
        do throws(JSONMembers.Fault) {
            try members.load(reader.bytes.extracting(start..<reader.offset))
        } catch {
            return .refused(KeyFault("key number \(position) is no JSON object with distinct members"))
        }
        return JWK.key(members, position: position)
    }

    private static func step(_ reader: inout JSONReader) -> JSONToken? {
        do throws(JSONFault) { return try reader.next() } catch { return nil }
    }
}

internal import Wire

/// An account's attributes: one JSON object of at most 4 KiB, set by the operator, by a hook, and partly by the user.
package struct Attributes: Sendable, Hashable {
    /// The object, without insignificant white space and without `null`.
    package let json: [UInt8]

    package static let none = Attributes(stored: Array("{}".utf8))
    package static let largest = 4_096

    /// Throws for what is no object, or too large.
    package init(json source: RawSpan) throws(Metadata.Fault) {
        let object = try Metadata(json: source).json
        guard object.count <= Self.largest else { throw .tooLarge }
        json = object
    }

    /// An object from the store; not checked again.
    package init(stored json: [UInt8]) { self.json = json }
}

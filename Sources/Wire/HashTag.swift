/// Hash tag of a key in Redis Cluster: one of 256, `{b0}` to `{b255}`. Keys with the same tag lie on the same node, so one script
/// call may have all of them.
package struct HashTag: Equatable, Hashable, Sendable {
    package static let count = 256

    package let number: UInt8

    package init(_ number: UInt8) { self.number = number }

    /// The tag of a name that has no subject.
    package init(of name: RawSpan) {
        var sum: UInt32 = 2_166_136_261
        for index in 0..<name.byteCount { sum = (sum ^ UInt32(name[index])) &* 16_777_619 }
        number = UInt8(truncatingIfNeeded: sum ^ sum >> 16)
    }

    /// Length of the text in bytes.
    @inlinable package var length: Int { number < 10 ? 4 : number < 100 ? 5 : 6 }

    package func write(into out: inout ByteBuffer) {
        out.append("{b" as StaticString)
        out.append(decimal: Int(number))
        out.append(UInt8(ascii: "}"))
    }
}

import Wire

extension String {
    var utf8Bytes: [UInt8] { Array(utf8) }
}

extension ByteBuffer {
    var text: String { readable.text }
}

import Gate
import HTTP
import Wire

/// The end of a chunked message, with those of its trailer fields that may pass.
enum Trailers {
    /// Writes the last chunk and the trailer fields in `table`, which `parseTrailers` filled from `bytes`, without fields
    /// that frame or route a message, belong to one connection, or carry a name that is reserved in a request (RFC 9110
    /// §6.5.1); `keep=` is for heads.
    static func writeEnd(_ table: borrowing FieldTable, _ bytes: RawSpan, into out: inout ByteBuffer) {
        out.append(ChunkWriter.lastChunkBeforeTrailers)
        for index in 0..<table.count where passes(table[index], bytes) {
            out.append(bytes[table[index].name])
            out.append(": ")
            out.append(bytes[table[index].value])
            out.append("\r\n")
        }
        out.append("\r\n")
    }

    /// A trailer is taken for a header by some who merge the two, so only names without a meaning here pass.
    private static func passes(_ field: Field, _ bytes: RawSpan) -> Bool {
        !field.endsHere && field.known == .other && !IdentityHeaders.owns(bytes[field.name])
            && !IdentityHeaders.ownsInAnswer(bytes[field.name])
    }
}

import Gate
import HTTP
import Wire

/// Writes the end of a chunked message with the trailer fields that may be forwarded.
enum Trailers {
    /// Writes the last chunk and the trailer fields in `table`, slices of `bytes`. Fields for framing, routing or one connection and
    /// reserved names are dropped (RFC 9110 §6.5.1); a route's `keep=` does not apply.
    static func writeEnd(
        _ table: borrowing FieldTable, _ bytes: RawSpan, edits: borrowing FieldEdits = FieldEdits(), into out: inout ByteBuffer
    ) {
        out.append(ChunkWriter.lastChunkBeforeTrailers)
        writeLines(table, bytes, edits: edits, into: &out)
        out.append("\r\n")
    }

    /// Writes the lines of the trailer fields alone, but for those that `edits` removes.
    static func writeLines(
        _ table: borrowing FieldTable, _ bytes: RawSpan, edits: borrowing FieldEdits = FieldEdits(), into out: inout ByteBuffer
    ) {
        for index in 0..<table.count
        where passes(table[index], bytes) && !edits.removes(table[index].known, bytes[table[index].name]) {
            out.append(bytes[table[index].name])
            out.append(": ")
            out.append(bytes[table[index].value])
            out.append("\r\n")
        }
    }

    /// Some recipients merge trailers into the header, so only names without a meaning to the gateway pass.
    private static func passes(_ field: Field, _ bytes: RawSpan) -> Bool {
        !field.endsHere && field.known == .other && !IdentityHeaders.owns(bytes[field.name])
            && !IdentityHeaders.ownsInAnswer(bytes[field.name]) && !bytes[field.name].isNameOfCORS
    }
}

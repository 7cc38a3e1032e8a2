package import Wire

/// Trailer sections larger than this are a fault.
private let mostTrailers = 32

/// Parses the lines of a trailer section, the `slice` of `bytes` that a `BodyDecoder` found, into `table`.
///
/// What must not stand in a trailer section (RFC 9110 §6.5.1) is marked as nominated, so that whoever forwards drops
/// it: every field that a gateway or a recipient acts on before the content. `ETag` and unknown names are left to whoever
/// forwards.
package func parseTrailers(_ bytes: RawSpan, _ slice: Slice, into table: inout FieldTable) -> HTTPFault? {
    // The empty line behind the slice ends the reading.
    let window = bytes.extracting(0..<min(slice.end + 2, bytes.byteCount))
    do throws(HeadStop) {
        let end = try table.read(window, from: Int(slice.start), limit: mostTrailers)
        guard end == slice.end + 2 else { return HTTPFault(.trailer) }
    } catch {
        switch error {
        case .fault(.tooManyFields): return HTTPFault(.trailerTooLarge)
        case .fault(let reason): return HTTPFault(reason)
        case .incomplete: return HTTPFault(.trailer)
        }
    }
    table.nominateForbiddenTrailers()
    return nil
}

extension FieldTable {
    fileprivate mutating func nominateForbiddenTrailers() {
        for index in 0..<count where entries[index].known != .other && entries[index].known != .etag {
            entries[index].isNominated = true
        }
    }
}

package import Wire

/// Trailer fields of a message; more are a fault.
private let mostTrailers = 32

/// Parses the lines of a trailer section, the `slice` of `bytes` that a `BodyDecoder` found, into `table`.
///
/// Fields that are not allowed there (RFC 9110 §6.5.1), which are all that a recipient acts on before the content, are marked as
/// nominated and so not forwarded. `ETag` and unknown names are not marked; `Proxy` drops `ETag` as well.
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

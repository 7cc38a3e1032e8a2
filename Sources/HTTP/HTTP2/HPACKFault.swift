/// A field block that cannot be decoded: a connection error of type COMPRESSION_ERROR (RFC 9113 §4.3), because the dynamic tables
/// of both ends may differ from here on.
package enum HPACKFault: UInt8, Error, Sendable, CaseIterable {
    /// The block ends within a representation.
    case truncated
    /// An integer of more than five octets after its prefix.
    case integer
    /// An index beyond both tables, or 0 where a field is meant.
    case index
    /// A Huffman code for the end of string.
    case huffmanEndOfString
    /// Padding of a Huffman-coded string that is longer than seven bits or has a zero.
    case huffmanPadding
    /// A table size above the limit that our SETTINGS set.
    case tableSize
    /// A table size update behind a field.
    case tableSizePlace

    /// Stable, snake_case, for logs and metrics.
    package var text: StaticString {
        switch self {
        case .truncated: "truncated"
        case .integer: "integer"
        case .index: "index"
        case .huffmanEndOfString: "huffman_end_of_string"
        case .huffmanPadding: "huffman_padding"
        case .tableSize: "table_size"
        case .tableSizePlace: "table_size_place"
        }
    }
}

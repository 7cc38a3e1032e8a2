import Glibc
import Testing

/// nghttp2's HPACK, which every Debian with libcurl has: another implementation to encode for us and to decode what we encode.
struct PeerHPACK {
    /// `nghttp2_nv` and, with the same members in the same places, the start of what the inflater emits.
    struct NameValue {
        var name: UnsafePointer<UInt8>?
        var value: UnsafePointer<UInt8>?
        var nameCount = 0
        var valueCount = 0
        var flags: UInt8 = 0
    }

    typealias New = @convention(c) (UnsafeMutablePointer<OpaquePointer?>, Int) -> Int32
    typealias NewInflater = @convention(c) (UnsafeMutablePointer<OpaquePointer?>) -> Int32
    typealias Change = @convention(c) (OpaquePointer?, Int) -> Int32
    typealias Deflate = @convention(c) (OpaquePointer?, UnsafeMutablePointer<UInt8>, Int, UnsafeRawPointer, Int) -> Int
    typealias Inflate =
        @convention(c) (
            OpaquePointer?, UnsafeMutableRawPointer, UnsafeMutablePointer<Int32>, UnsafePointer<UInt8>?, Int, Int32
        ) -> Int
    typealias End = @convention(c) (OpaquePointer?) -> Int32
    typealias Delete = @convention(c) (OpaquePointer?) -> Void

    let newDeflater: New
    let changeTable: Change
    let deflate: Deflate
    let newInflater: NewInflater
    let inflate: Inflate
    let endHeaders: End
    let deleteEncoder: Delete
    let deleteDecoder: Delete

    static let isThere = dlopen("libnghttp2.so.14", RTLD_NOW) != nil

    init() throws {
        let library = try #require(dlopen("libnghttp2.so.14", RTLD_NOW))
        func function<Function>(_ name: String, as type: Function.Type) throws -> Function {
            unsafeBitCast(try #require(dlsym(library, name)), to: type)
        }
        newDeflater = try function("nghttp2_hd_deflate_new", as: New.self)
        changeTable = try function("nghttp2_hd_deflate_change_table_size", as: Change.self)
        deflate = try function("nghttp2_hd_deflate_hd", as: Deflate.self)
        newInflater = try function("nghttp2_hd_inflate_new", as: NewInflater.self)
        inflate = try function("nghttp2_hd_inflate_hd2", as: Inflate.self)
        endHeaders = try function("nghttp2_hd_inflate_end_headers", as: End.self)
        deleteEncoder = try function("nghttp2_hd_deflate_del", as: Delete.self)
        deleteDecoder = try function("nghttp2_hd_inflate_del", as: Delete.self)
    }

    func encoder(tableLimit: Int) -> OpaquePointer? {
        var deflater: OpaquePointer?
        _ = newDeflater(&deflater, tableLimit)
        return deflater
    }

    func decoder() -> OpaquePointer? {
        var inflater: OpaquePointer?
        _ = newInflater(&inflater)
        return inflater
    }

    /// One block of `fields`, of which there is at least one.
    func encode(_ fields: [FieldPair], _ encoder: OpaquePointer?) -> [UInt8] {
        var storage = fields.flatMap { $0.name + $0.value }
        var block = [UInt8](repeating: 0, count: storage.count + 64 * fields.count + 64)
        let count = storage.withUnsafeMutableBufferPointer { bytes -> Int in
            var offset = 0
            let list = fields.map { field -> NameValue in
                defer { offset += field.name.count + field.value.count }
                let base = bytes.baseAddress.map { UnsafePointer($0 + offset) }
                return NameValue(
                    name: base, value: base.map { $0 + field.name.count }, nameCount: field.name.count, valueCount: field.value.count)
            }
            return list.withUnsafeBytes { deflate(encoder, &block, block.count, $0.baseAddress!, fields.count) }
        }
        return Array(block[0..<count])
    }

    /// The fields of one block, or nil if nghttp2 refuses it.
    func decode(_ block: [UInt8], _ decoder: OpaquePointer?) -> [FieldPair]? {
        var fields: [FieldPair] = []
        var offset = 0
        while true {
            var field = NameValue()
            var flags: Int32 = 0
            let read = block.withUnsafeBufferPointer {
                inflate(decoder, &field, &flags, $0.baseAddress.map { $0 + offset }, block.count - offset, 1)
            }
            guard read >= 0 else { return nil }
            offset += read
            // Emitted, and final.
            if flags & 2 != 0 { fields.append(FieldPair(bytes(field.name, field.nameCount), bytes(field.value, field.valueCount))) }
            if flags & 1 != 0 { break }
        }
        _ = endHeaders(decoder)
        return fields
    }

    private func bytes(_ start: UnsafePointer<UInt8>?, _ count: Int) -> [UInt8] { Array(UnsafeBufferPointer(start: start, count: count)) }
}

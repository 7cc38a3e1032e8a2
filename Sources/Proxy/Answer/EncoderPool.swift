import HTTP
import Wire

/// One worker's encoders: those that are used, of which there is a bound, and some that are kept for the next answers.
final class EncoderPool {
    /// Answers that are compressed at the same time, and event streams among them, which last.
    private static let most = 64
    private static let mostForEvents = 32
    /// Bytes of encoders that are kept.
    private static let maxKept = 8 << 20

    /// Whether no more are given, as the worker is late or short of memory: an answer that is not compressed costs it less.
    var isBusy = false
    private(set) var used = 0
    private(set) var usedForEvents = 0
    private(set) var keptBytes = 0
    private var zstd = UniqueArray<ContentEncoder>()
    private var br = UniqueArray<ContentEncoder>()
    private var gzip = UniqueArray<ContentEncoder>()

    /// An encoder that has begun; nil if the bound is reached, or without memory.
    func take(_ coding: ContentCoding, padding: UInt8, isForEvents: Bool) -> ContentEncoder? {
        guard !isBusy, used < Self.most, !isForEvents || usedForEvents < Self.mostForEvents else { return nil }
        guard var encoder = kept(coding) ?? ContentEncoder(coding), encoder.begin(padding: padding) else { return nil }
        used += 1
        if isForEvents { usedForEvents += 1 }
        return encoder
    }

    private func kept(_ coding: ContentCoding) -> ContentEncoder? {
        guard let encoder = popLast(coding) else { return nil }
        keptBytes -= encoder.heldBytes
        return encoder
    }

    private func popLast(_ coding: ContentCoding) -> ContentEncoder? {
        switch coding {
        case .zstd: zstd.popLast()
        case .br: br.popLast()
        case .gzip: gzip.popLast()
        case .identity, .deflate: nil
        }
    }

    /// Takes back an encoder whose answer is over.
    func give(_ encoder: consuming ContentEncoder, isForEvents: Bool) {
        used -= 1
        if isForEvents { usedForEvents -= 1 }
        let bytes = encoder.heldBytes
        guard keptBytes + bytes <= Self.maxKept else { return }
        keptBytes += bytes
        switch encoder.coding {
        case .zstd: zstd.append(encoder)
        case .br: br.append(encoder)
        case .gzip: gzip.append(encoder)
        case .identity, .deflate: break
        }
    }
}

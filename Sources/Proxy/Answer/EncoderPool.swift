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
    /// How many of them one client may hold.
    var share = ShareRule.all
    /// Those that are used, by the hash of the client that holds them.
    private var holders: [(client: UInt64, isForEvents: Bool)] = []
    private(set) var keptBytes = 0
    private var zstd = UniqueArray<ContentEncoder>()
    private var br = UniqueArray<ContentEncoder>()
    private var gzip = UniqueArray<ContentEncoder>()

    init() { holders.reserveCapacity(Self.most) }

    var used: Int { holders.count }

    /// An encoder that has begun; nil if the bound or the client's share of it is reached, or without memory.
    func take(_ coding: ContentCoding, padding: UInt8, isForEvents: Bool, client: UInt64) -> ContentEncoder? {
        guard !isBusy, hasRoom(client, Self.most, isForEvents: false) else { return nil }
        guard !isForEvents || hasRoom(client, Self.mostForEvents, isForEvents: true) else { return nil }
        guard var encoder = kept(coding) ?? ContentEncoder(coding), encoder.begin(padding: padding) else { return nil }
        holders.append((client, isForEvents))
        return encoder
    }

    /// Whether a client may hold one more of all encoders, or of those for event streams.
    private func hasRoom(_ client: UInt64, _ limit: Int, isForEvents: Bool) -> Bool {
        var (taken, held) = (0, 0)
        for holder in holders where !isForEvents || holder.isForEvents {
            taken += 1
            if holder.client == client { held += 1 }
        }
        return taken < limit && share.allows(held: held, taken: taken, limit: limit)
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
    func give(_ encoder: consuming ContentEncoder, isForEvents: Bool, client: UInt64) {
        if let place = holders.firstIndex(where: { $0.client == client && $0.isForEvents == isForEvents }) {
            holders.swapAt(place, holders.count - 1)
            holders.removeLast()
        }
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

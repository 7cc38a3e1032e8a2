/// Identifies the object of a loop's report in 64 bits: a kind, the low 24 bits of a generation, an index.
struct Token {
    enum Kind: UInt8 { case waker = 0, listener, client, upstream, redis }

    let kind: Kind
    private let index: UInt32
    private let generation: UInt32

    static let redis = Token(kind: .redis, index: 0, generation: 0)

    private init(kind: Kind, index: UInt32, generation: UInt32) {
        self.kind = kind
        self.index = index
        self.generation = generation & 0xff_ffff
    }

    /// `handle` is a client's or an upstream connection's, as `kind` says.
    init<Element: ~Copyable>(_ kind: Kind, _ handle: Handle<Element>) {
        self.init(kind: kind, index: handle.index.number, generation: handle.generation)
    }

    init(listener: Int) { self.init(kind: .listener, index: UInt32(listener), generation: 0) }

    init(_ bits: UInt64) {
        self.init(
            kind: Kind(rawValue: UInt8(truncatingIfNeeded: bits >> 56)) ?? .waker, index: UInt32(truncatingIfNeeded: bits),
            generation: UInt32(truncatingIfNeeded: bits >> 32))
    }

    var bits: UInt64 { UInt64(kind.rawValue) << 56 | UInt64(generation) << 32 | UInt64(index) }

    var listener: Int { Int(index) }

    /// The element; nil if it was closed earlier in the same turn.
    func element<Element: ~Copyable>(of slab: borrowing Slab<Element>) -> SlabIndex<Element>? {
        let handle = slab.handle(SlabIndex(number: index))
        return handle.generation & 0xff_ffff == generation ? handle.index : nil
    }
}

extension Worker {
    /// The token of the first connection to Redis in the worker's loop.
    package static var redisToken: UInt64 { Token.redis.bits }
}

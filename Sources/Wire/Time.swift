/// A time of the monotonic clock, in nanoseconds since an arbitrary start. For timeouts, ages and rates.
@frozen
public struct MonotonicTime: Equatable, Comparable, Hashable, Sendable {
    public var nanoseconds: UInt64

    @inlinable public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    @inlinable public static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    @inlinable public func advanced(milliseconds: UInt64) -> Self {
        Self(nanoseconds: nanoseconds &+ milliseconds &* 1_000_000)
    }

    /// Nanoseconds since `earlier`, 0 if that is later.
    @inlinable public func nanoseconds(since earlier: Self) -> UInt64 {
        nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0
    }
}

/// A time of the wall clock, in microseconds since 1970-01-01T00:00:00Z. For token claims and logs; it may jump.
@frozen
public struct WallTime: Equatable, Comparable, Hashable, Sendable {
    public var microseconds: Int64

    @inlinable public init(microseconds: Int64) { self.microseconds = microseconds }
    /// From seconds since 1970, clamped to the range of ±292,000 years.
    @inlinable public init(seconds: Int64) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        microseconds = overflow ? (seconds < 0 ? .min : .max) : product
    }

    /// Whole seconds since 1970, rounded down.
    @inlinable public var seconds: Int64 {
        let (quotient, remainder) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    @inlinable public static func < (left: Self, right: Self) -> Bool { left.microseconds < right.microseconds }
}

/// Both clocks, read together once per turn of an event loop and passed down: the core reads no clock.
@frozen
public struct Moment: Equatable, Sendable {
    public var monotonic: MonotonicTime
    public var wall: WallTime

    @inlinable public init(monotonic: MonotonicTime, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

extension WallTime {
    /// The time `seconds` later, clamped to the range.
    package func advanced(seconds: Int64) -> WallTime {
        let (sum, overflow) = microseconds.addingReportingOverflow(WallTime(seconds: seconds).microseconds)
        return WallTime(microseconds: overflow ? (seconds < 0 ? .min : .max) : sum)
    }
}

import Wire

/// The version of an app, compared by its numbers: 4.10 is above 4.9, and 4.2 is 4.2.0.
package struct AppVersion: Comparable, Hashable, Sendable {
    /// The numbers in front come first. One that does not fit is the largest that does.
    private var numbers = SIMD8<UInt64>(repeating: 0)

    package init() {}

    /// Reads up to eight numbers with dots between them. A `v` in front, and all from the first `-` or `+` on, is left out; nil for other texts.
    package init?(_ text: RawSpan) {
        guard text.byteCount <= 128 else { return nil }
        var (lane, digits) = (0, 0)
        var offset = text.byteCount > 0 && text[0] | 0x20 == UInt8(ascii: "v") ? 1 : 0
        scan: while offset < text.byteCount {
            let byte = text[offset]
            switch byte {
            case UInt8(ascii: "."):
                guard digits > 0, lane < 7 else { return nil }
                (lane, digits) = (lane + 1, 0)
            case UInt8(ascii: "-"), UInt8(ascii: "+"): break scan
            default:
                guard byte.isASCIIDigit else { return nil }
                let (tens, isLong) = numbers[lane].multipliedReportingOverflow(by: 10)
                let (sum, isLonger) = tens.addingReportingOverflow(UInt64(byte - UInt8(ascii: "0")))
                numbers[lane] = isLong || isLonger ? .max : sum
                digits += 1
            }
            offset += 1
        }
        guard digits > 0 else { return nil }
    }

    package init?(_ text: String) {
        guard let version = text.withRawBytes({ AppVersion($0) }) else { return nil }
        self = version
    }

    /// A hash of a gate and the version, the same for equal versions.
    func hash(_ hash: KeyedHash, gate: UInt8) -> UInt64 {
        var found = UInt64(gate) << 8 | 1
        for lane in stride(from: 0, to: 8, by: 2) where lane == 0 || numbers[lane] | numbers[lane + 1] != 0 {
            found = hash.hash128(numbers[lane], numbers[lane + 1], domain: found &+ UInt64(lane)).low
        }
        return found
    }

    package static func < (left: Self, right: Self) -> Bool {
        for lane in 0..<8 where left.numbers[lane] != right.numbers[lane] { return left.numbers[lane] < right.numbers[lane] }
        return false
    }

    /// Two numbers or more, without further zeros at the end.
    package var text: String {
        var count = 8
        while count > 2, numbers[count - 1] == 0 { count -= 1 }
        return (0..<count).map { "\(numbers[$0])" }.joined(separator: ".")
    }
}

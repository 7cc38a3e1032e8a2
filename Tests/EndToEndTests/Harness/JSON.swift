import Foundation

/// A JSON value to look into.
struct JSON: Sendable, CustomStringConvertible {
    enum Value: Sendable {
        case object([String: JSON]), array([JSON]), text(String), number(Double), bool(Bool), null
    }

    let value: Value

    init(_ text: String) throws {
        do {
            self = try JSON(any: JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed))
        } catch {
            throw Fault("no JSON: \(text)")
        }
    }

    private init(_ value: Value) { self.value = value }

    private init(any: Any) throws {
        switch any {
        case let object as [String: Any]: value = .object(try object.mapValues { try JSON(any: $0) })
        case let array as [Any]: value = .array(try array.map { try JSON(any: $0) })
        case let text as String: value = .text(text)
        case let number as NSNumber:
            value = String(cString: number.objCType) == "c" ? .bool(number.boolValue) : .number(number.doubleValue)
        default: value = .null
        }
    }

    subscript(_ name: String) -> JSON {
        if case .object(let members) = value { members[name] ?? JSON(.null) } else { JSON(.null) }
    }

    subscript(_ index: Int) -> JSON {
        if case .array(let elements) = value, elements.indices.contains(index) { elements[index] } else { JSON(.null) }
    }

    var text: String? { if case .text(let text) = value { text } else { nil } }
    var number: Double? { if case .number(let number) = value { number } else { nil } }
    var int: Int? { number.map { Int($0) } }
    var bool: Bool? { if case .bool(let bool) = value { bool } else { nil } }
    var array: [JSON] { if case .array(let elements) = value { elements } else { [] } }
    var names: [String] { if case .object(let members) = value { members.keys.sorted() } else { [] } }
    var isNull: Bool { if case .null = value { true } else { false } }
    var description: String { "\(value)" }
}

import Foundation

/// The description of the admin API as the gateway gives it, to hold real answers against.
struct APIDescription {
    let document: JSON

    /// `GET users/{id}` and the like.
    var operations: [String] {
        document["paths"].names.flatMap { path in
            document["paths"][path].names.map { "\($0.uppercased()) \(path.dropFirst("/admin/api/".count))" }
        }
    }

    /// Everything in which an answer differs from its schema: also members that it does not name.
    func violations(_ answer: String, to method: String, _ path: String, status: String = "200") throws -> [String] {
        let response = document["paths"]["/admin/api/" + path][method.lowercased()]["responses"][status]
        guard !response.isNull else { return ["\(method) \(path) has no answer \(status)"] }
        let content = response["content"]["application/json"]["schema"]
        return check(try JSON(answer), content, "\(method) \(path)")
    }

    /// Likewise for the data of an event.
    func violations(_ data: String, event: String) throws -> [String] {
        let events = document["paths"]["/admin/api/live"]["get"]["responses"]["200"]["x-events"]
        guard events.names.contains(event) else { return ["an event \(event)"] }
        return check(try JSON(data), events[event], event)
    }

    private func check(_ value: JSON, _ schema: JSON, _ place: String) -> [String] {
        if let name = schema["$ref"].text?.split(separator: "/").last {
            return check(value, document["components"]["schemas"][String(name)], place)
        }
        let choices = schema["oneOf"].array
        if !choices.isEmpty {
            return choices.contains { check(value, $0, place).isEmpty } ? [] : ["\(place) fits no choice: \(value)"]
        }
        switch schema["type"].text {
        case nil: return []
        case "null": return value.isNull ? [] : ["\(place) is not null"]
        case "string": return checkText(value, schema, place)
        case "integer":
            guard let number = value.number, number == number.rounded() else { return ["\(place) is no integer: \(value)"] }
            let isWithin = number >= schema["minimum"].number ?? -.infinity && number <= schema["maximum"].number ?? .infinity
            return isWithin ? [] : ["\(place) is out of its range: \(value)"]
        case "number": return value.number != nil ? [] : ["\(place) is no number: \(value)"]
        case "boolean": return value.bool != nil ? [] : ["\(place) is no boolean: \(value)"]
        case "array":
            guard case .array(let elements) = value.value else { return ["\(place) is no array: \(value)"] }
            return elements.enumerated().flatMap { check($1, schema["items"], "\(place)[\($0)]") }
        case "object": return checkObject(value, schema, place)
        default: return ["\(place) has an unknown type"]
        }
    }

    private func checkText(_ value: JSON, _ schema: JSON, _ place: String) -> [String] {
        guard let text = value.text else { return ["\(place) is no string: \(value)"] }
        if schema["format"].text == "date-time", text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/) == nil {
            return ["\(place) is no time: \(text)"]
        }
        if schema["format"].text == "uuid", UUID(uuidString: text) == nil { return ["\(place) is no UUID: \(text)"] }
        let words = schema["enum"].array.compactMap(\.text)
        return words.isEmpty || words.contains(text) ? [] : ["\(place) is none of \(words): \(text)"]
    }

    private func checkObject(_ value: JSON, _ schema: JSON, _ place: String) -> [String] {
        guard case .object(let members) = value.value else { return ["\(place) is no object: \(value)"] }
        var found = schema["required"].array.compactMap(\.text).filter { members[$0] == nil }.map { "\(place).\($0) is missing" }
        for (name, member) in members {
            let declared = schema["properties"][name].isNull ? schema["additionalProperties"] : schema["properties"][name]
            if declared.isNull {
                found.append("\(place).\(name) is not described")
            } else {
                found += check(member, declared, "\(place).\(name)")
            }
        }
        return found
    }
}

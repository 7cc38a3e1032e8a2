package import Gate
internal import Wire

/// The origins that `cors=` or `TOLLGATE_CORS` names.
package enum CORSChoice: Hashable, Sendable {
    case off
    case on(CORSOrigins)

    /// Parses `off`, or origins.
    fileprivate init(_ words: [String]) throws(CORSOrigins.Fault) {
        self = words == ["off"] ? .off : .on(try CORSOrigins(words))
    }

    var origins: CORSOrigins? {
        switch self {
        case .off: nil
        case .on(let origins): origins
        }
    }
}

/// The CORS options of a route line. `rule` combines them with `TOLLGATE_CORS`.
package struct CORSOptions: Hashable, Sendable {
    /// nil: as `TOLLGATE_CORS` says.
    package var choice: CORSChoice?
    /// All but the origins.
    package var rule = CORSRule(.any)
    /// The first option that means nothing without origins.
    private var dependent: String?

    static func readChoice(_ line: inout OptionLine, _ route: inout RouteDeclaration) {
        route.cors.choice = line.value("cors") { text throws(ParseError) in
            try choice(text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        }
    }

    mutating func noteDependent(_ line: OptionLine) {
        // An invalid `cors=` has been reported.
        guard choice != nil || !line.has("cors") else { return }
        dependent = ["cors-credentials", "cors-headers", "cors-expose", "cors-max-age"].first { line.has($0) }
    }

    /// The origins of a setting, separated by spaces or commas; nil for none.
    static func choice(ofSetting text: String) throws(ParseError) -> CORSChoice {
        let words = text.split { $0 == " " || $0 == "\t" || $0 == "," }.map(String.init)
        return words.isEmpty ? .off : try choice(words)
    }

    private static func choice(_ words: [String]) throws(ParseError) -> CORSChoice {
        do throws(CORSOrigins.Fault) {
            return try CORSChoice(words)
        } catch {
            if error.word == "off" { throw ParseError("names origins beside off, keep one of them") }
            throw ParseError(words.count == 1 ? error.message : "has an origin at fault: \(quoted(error.word)) \(error.message)")
        }
    }

    static func fieldName(_ text: String) throws(ParseError) -> String {
        let isName = !text.isEmpty && text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 45 || $0 == 95 }
        guard isName else { throw ParseError("is no list of field names, write names like X-Device,X-App-Version") }
        return text
    }

    /// The route's policy; nil for none. Throws the contradiction.
    func rule(default fallback: CORSChoice) throws(ParseError) -> CORSRule? {
        guard let origins = (choice ?? fallback).origins else {
            guard let dependent else { return nil }
            throw ParseError("has \(dependent)= and no origins for it, add cors=https://app.example.org or set TOLLGATE_CORS")
        }
        guard origins != .any || !rule.allowsCredentials else {
            let place = choice == nil ? "TOLLGATE_CORS=*" : "cors=*"
            throw ParseError(
                "has cors-credentials=on with \(place): pages of every origin would act as the user, name the origins in cors=")
        }
        var rule = rule
        rule.origins = origins
        return rule
    }
}

extension ConfigurationReader {
    /// Reports and returns nil where the options of a route contradict each other.
    mutating func corsRule(of route: RouteDeclaration) -> CORSRule? {
        do throws(ParseError) {
            return try route.cors.rule(default: configuration.cors)
        } catch {
            findings.fault(route, error.text)
            return nil
        }
    }
}

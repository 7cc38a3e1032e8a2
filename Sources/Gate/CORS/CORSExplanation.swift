extension Explanation {
    /// The request's standing by CORS; nil for a request without `Origin` where no policy applies.
    static func cors(_ note: borrowing DecisionRecord, _ policy: Policy) -> String? {
        let origin = note.origin
        guard note.corsNumber >= 0, note.corsNumber < policy.cors.count else {
            return origin.isEmpty ? nil : "no cors= applies, the upstream's own CORS fields pass"
        }
        let rule = policy.cors[Int(note.corsNumber)].rule
        let purpose = if case .answer = note.verdict { "a preflight: " } else { "" }
        return purpose + standing(note, rule, origin)
    }

    private static func standing(_ note: borrowing DecisionRecord, _ rule: CORSRule, _ origin: String) -> String {
        switch note.cors {
        case .off, .noOrigin: return "no Origin was sent, so the response only has Vary: Origin"
        case .own: return "\(origin) is the gateway's own origin, the response has no CORS fields"
        case .allowed:
            let credentials = rule.allowsCredentials ? ", with credentials" : ""
            return "\(origin) is allowed by \(rule.origins.text)\(credentials)"
        case .foreign:
            let refused = note.refusal == .forbidden(.origin) ? ", and credentials with such a method are refused" : ""
            return "\(origin) is foreign, only \(rule.origins.text) is allowed: the response has no CORS fields\(refused)"
        }
    }
}

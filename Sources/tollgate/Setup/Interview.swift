internal import Credentials
internal import Settings
internal import Wire

/// The questions of `tollgate init`, one after the other: an answer goes in, a complaint or the next question comes out.
struct Interview: Sendable {
    /// The findings about the file that answers would make.
    typealias Judge = (SetupAnswers) -> Findings

    private(set) var answers = SetupAnswers()

    /// The question to ask now; nil at the end.
    var question: SetupQuestion? { SetupQuestion.allCases.first { !answers.has($0) && $0.applies(to: answers) } }

    /// The text in front of the cursor.
    var prompt: String {
        guard let question else { return "" }
        let usual = question.usual(after: answers)
        return question.prompt(after: answers) + (usual.isEmpty ? "" : " [\(usual)]") + ": "
    }

    /// Takes the answer to `question`; an empty one stands for its default. Returns what is wrong with it, after which the same
    /// question, or that of the certificate for its key, is asked again.
    mutating func answer(_ text: String, judge: Judge) -> String? {
        guard let question else { return nil }
        let words = text.trimming()
        var next = answers
        next[question] = words.isEmpty ? question.usual(after: answers) : words
        if let complaint = Self.complaint(about: question, in: next, judge) {
            answers.forget(question.retry)
            return complaint
        }
        answers = next
        return nil
    }

    /// The fault of one answer, by the reader of its setting.
    static func complaint(about question: SetupQuestion, in answers: SetupAnswers, _ judge: Judge) -> String? {
        let text = answers[question]
        if let fault = ownFault(question, answers) { return "\(quoted(text)) \(fault)" }
        let names = question.settings(answers)
        return names.isEmpty ? nil : judge(answers).faults.first { $0.name.map(names.contains) ?? true }?.message
    }

    /// The faults that no setting's reader has.
    private static func ownFault(_ question: SetupQuestion, _ answers: SetupAnswers) -> String? {
        let text = answers[question]
        if text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) { return "contains a control character, remove it" }
        do throws(ParseError) {
            switch question {
            case .contract: _ = try TypedText.choice(text, SetupQuestion.contracts)
            case .issuer:
                _ = try TypedText.choice(text, SetupQuestion.issuers)
                // A route demands a claim of all tokens or of none.
                if answers.issuerKind?.bindsClient == true, answers[.contract] != SetupQuestion.none {
                    throw ParseError(
                        "cannot stand beside a sign-in API: its app client would be demanded of the API's own tokens too, choose none for one of them"
                    )
                }
            case .tenant:
                // The audience comes later: any will do to judge the tenant.
                var answers = answers
                if answers[.audience].isEmpty { answers[.audience] = "unknown" }
                _ = try answers.outsideIssuer()
            case .audience: _ = try answers.outsideIssuer()
            case .upstream where text.isEmpty: throw ParseError("is no address of an upstream, write one like http://127.0.0.1:9001")
            case .appleClientIDs where answers.providers == [.apple] && text.isEmpty, .googleClientIDs where answers.lacksClientIDs:
                throw ParseError("leaves no app that could sign in, give the client ids of at least one")
            case .tlsKey where text.isEmpty: throw ParseError("names no key, give the PEM file of the certificate's key")
            case .upstream, .redis, .publicURL, .tlsCertificate, .tlsKey, .appleClientIDs, .googleClientIDs, .trustedProxies: break
            }
            return nil
        } catch {
            return error.text
        }
    }
}

extension String {
    fileprivate func trimming() -> String {
        var text = self[...]
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }
}

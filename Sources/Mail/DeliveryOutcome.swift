/// The outcome of a delivery attempt.
enum DeliveryOutcome: Sendable, Equatable {
    case sent
    /// A permanent failure: not retried.
    case refused(String)
    /// A transient failure: retried.
    case failed(String)
    /// The server could not be reached, or stopped answering: retried, and meanwhile the server gets one message at a time.
    case unanswered(String)

    /// The outcome of an SMTP transfer. `failure` is libcurl's error, `status` the server's last reply code (RFC 5321 §4.2), 0
    /// for none. A 5xx is permanent, except a failed login, which the operator can fix.
    static func mail(failure: String?, status: Int, isLoginDenied: Bool) -> Self {
        guard let failure else { return .sent }
        guard status >= 400 else { return .unanswered(status > 0 ? "\(failure), the last answer was \(status)" : failure) }
        let reason = "\(failure), the server answered \(status)"
        return (500..<600).contains(status) && !isLoginDenied ? .refused(reason) : .failed(reason)
    }

    /// The outcome of a webhook call. Any 2xx is success; a 4xx is permanent, except 408, 425 and 429.
    static func webhook(failure: String?, status: Int) -> Self {
        if let failure { return .unanswered(failure) }
        let reason = "the server answered \(status)"
        switch status {
        case 200..<300: return .sent
        case 408, 425, 429: return .failed(reason)
        case 400..<500: return .refused(reason)
        default: return .failed(reason)
        }
    }
}

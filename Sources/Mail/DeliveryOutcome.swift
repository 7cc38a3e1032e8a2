/// What came of one attempt.
enum DeliveryOutcome: Sendable, Equatable {
    case sent
    /// The server will never take it.
    case refused(String)
    /// It may go better later.
    case failed(String)

    /// Of a mail. `complaint` is why the conversation broke off, `status` the server's last code (RFC 5321 §4.2), 0 for
    /// none. A 5xx is a verdict on the message, but for the one about user and password.
    static func mail(complaint: String?, status: Int, isLoginDenied: Bool) -> Self {
        guard let complaint else { return .sent }
        let reason = status > 0 ? "\(complaint), the server answered \(status)" : complaint
        return (500..<600).contains(status) && !isLoginDenied ? .refused(reason) : .failed(reason)
    }

    /// Of a text message: any 2xx is good, and a 4xx is a verdict unless it speaks of the moment alone.
    static func webhook(complaint: String?, status: Int) -> Self {
        if let complaint { return .failed(complaint) }
        let reason = "the server answered \(status)"
        switch status {
        case 200..<300: return .sent
        case 408, 425, 429: return .failed(reason)
        case 400..<500: return .refused(reason)
        default: return .failed(reason)
        }
    }
}

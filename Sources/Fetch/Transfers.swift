/// One request over HTTP: a GET, or with a body a POST of JSON. Times are milliseconds.
package struct HTTPTransfer {
    package var url: String
    package var connectMilliseconds: Int
    /// From beginning to end, redirects included.
    package var totalMilliseconds: Int
    /// Bytes of an answer; a larger one breaks the transfer off.
    package var largestBody: Int
    /// JSON to be posted; nil for a GET.
    package var body: [UInt8]?
    /// How many redirects are followed. One from https to http never is.
    package var redirects: Int
    /// Whether it is never sent a second time: libcurl repeats what a kept connection lost, though it may have arrived.
    package var isSentOnce: Bool

    package init(
        url: String, connectMilliseconds: Int, totalMilliseconds: Int, largestBody: Int, body: [UInt8]? = nil,
        redirects: Int = 0, isSentOnce: Bool = false
    ) {
        self.url = url
        self.connectMilliseconds = connectMilliseconds
        self.totalMilliseconds = totalMilliseconds
        self.largestBody = largestBody
        self.body = body
        self.redirects = redirects
        self.isSentOnce = isSentOnce
    }
}

/// One mail as multipart/alternative, and the server that takes it. It is given up after 60 s.
package struct MailTransfer {
    static let largestAnswer = 65_536

    /// `smtp:` or `smtps:` with host and port.
    package var url: String
    package var user: String?
    package var password: String?
    /// Whether mail goes by TLS or not at all; else by TLS where the server offers it.
    package var demandsTLS: Bool
    /// A PEM file with the authorities to trust; nil for the system's.
    package var authorityFile: String?
    /// Of the envelope, without brackets.
    package var from: String
    package var to: String
    /// Whole lines without their ends; libcurl adds those that speak of the body.
    package var headers: [String]
    /// Two forms of the same body; lines end with CR LF.
    package var text: String
    package var html: String

    package init(
        url: String, user: String?, password: String?, demandsTLS: Bool, authorityFile: String?, from: String, to: String,
        headers: [String], text: String, html: String
    ) {
        self.url = url
        self.user = user
        self.password = password
        self.demandsTLS = demandsTLS
        self.authorityFile = authorityFile
        self.from = from
        self.to = to
        self.headers = headers
        self.text = text
        self.html = html
    }
}

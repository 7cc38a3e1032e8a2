/// An HTTP request: a GET, or a POST if it has a body.
package struct HTTPTransfer: Sendable {
    package var url: String
    /// Timeout of the connection.
    package var connectMilliseconds: Int
    /// Timeout of the whole transfer, redirects included.
    package var totalMilliseconds: Int
    /// The maximum size of a response body in bytes; a larger one aborts the transfer.
    package var largestBody: Int
    /// The content to post; nil for a GET.
    package var body: [UInt8]?
    package var bodyType = "application/json"
    /// The maximum number of redirects. Redirects from https to http are never followed.
    package var redirects: Int
    /// Whether the request must not be sent twice. libcurl otherwise resends it if a reused connection breaks, although the
    /// server may have processed it.
    package var isSentOnce: Bool
    /// The unix socket to connect to in place of the URL's host: a path, or "@" and an abstract name.
    package var unixSocket: String?
    /// PEM file of the CAs for the server's certificate, in place of the system's; nil for those.
    package var authorityFile: String?
    /// PEM files of a certificate for servers that ask for one, and of its key; nil for none.
    package var clientCertificate: String?
    package var clientKey: String?
    /// Whether connections to private addresses are refused, whatever name leads there.
    package var isPublicOnly = false
    /// Further fields, as lines without line ends.
    package var fields: [String]

    package init(
        url: String, connectMilliseconds: Int, totalMilliseconds: Int, largestBody: Int, body: [UInt8]? = nil,
        redirects: Int = 0, isSentOnce: Bool = false, unixSocket: String? = nil, authorityFile: String? = nil,
        clientCertificate: String? = nil, clientKey: String? = nil, fields: [String] = []
    ) {
        self.url = url
        self.connectMilliseconds = connectMilliseconds
        self.totalMilliseconds = totalMilliseconds
        self.largestBody = largestBody
        self.body = body
        self.redirects = redirects
        self.isSentOnce = isSentOnce
        self.unixSocket = unixSocket
        self.authorityFile = authorityFile
        self.clientCertificate = clientCertificate
        self.clientKey = clientKey
        self.fields = fields
    }
}

/// A mail (multipart/alternative) and its SMTP server.
package struct MailTransfer {
    /// The maximum size of the server's replies in bytes.
    static let largestAnswer = 65_536

    /// `smtp:` or `smtps:` with host and port.
    package var url: String
    package var user: String?
    package var password: String?
    /// Whether TLS is required; otherwise it is used if the server offers it.
    package var demandsTLS: Bool
    /// PEM file of the CAs for the server's certificate, in place of the system's; nil for those.
    package var authorityFile: String?
    /// Envelope addresses without angle brackets.
    package var from: String
    package var to: String
    /// Header lines without line ends. libcurl adds those of the MIME body.
    package var headers: [String]
    /// The body as plain text and as HTML; lines end with CR LF.
    package var text: String
    package var html: String
    /// Whether the transfer ends with the login, and sends no mail.
    package var isLoginOnly = false
    /// Timeout of each answer of the server, which libcurl counts in whole seconds and looks at only when it is called.
    package var answerMilliseconds: Int
    /// Timeout of the whole transfer.
    package var totalMilliseconds: Int

    package init(
        url: String, user: String?, password: String?, demandsTLS: Bool, authorityFile: String?, from: String, to: String,
        headers: [String], text: String, html: String, answerMilliseconds: Int, totalMilliseconds: Int
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
        self.answerMilliseconds = answerMilliseconds
        self.totalMilliseconds = totalMilliseconds
    }
}

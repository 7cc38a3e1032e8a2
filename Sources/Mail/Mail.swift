internal import Wire

/// A mail for SMTP: envelope, headers and body.
struct Mail: Sendable, Equatable {
    let from: MailAddress
    let to: MailAddress
    /// Header lines without line ends. libcurl adds those of the MIME body.
    let headers: [String]
    /// Lines end with CR LF.
    let text: String
    let html: String

    /// A mail with `id` in its Message-ID.
    init(_ letter: Letter, from: Sender, to: MailAddress, id: String, at now: WallTime) {
        self.from = from.address
        self.to = to
        headers = [
            "Date: " + Self.date(now), "From: " + from.header, "To: " + to.text,
            "Subject: " + HeaderText.unstructured(letter.subject), "Message-ID: <\(id)@\(from.address.domain)>",
            // Suppresses automatic replies (RFC 3834 §5).
            "Auto-Submitted: auto-generated",
        ]
        text = letter.plainText
        html = letter.html
    }

    /// The `Date` (RFC 5322 §3.3), which differs from HTTP's form in the name of UTC only.
    private static func date(_ now: WallTime) -> String {
        var out = ByteBuffer(capacity: 32)
        HTTPDate.write(now, into: &out)
        return out.readable.text.replacing("GMT", with: "+0000")
    }
}

/// The body of the SMS webhook: `{"to","text"}`.
enum WebhookBody {
    static func json(to number: String, text: String) -> [UInt8] {
        var out = ByteBuffer()
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("to", number)
            json.field("text", text)
            json.endObject()
        }
        return out.readable.array
    }
}

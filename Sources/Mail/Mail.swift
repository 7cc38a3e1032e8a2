internal import Wire

/// A letter with its envelope and its headers: what a mail server gets.
struct Mail: Sendable, Equatable {
    let from: MailAddress
    let to: MailAddress
    /// Whole lines without their ends; those that speak of the body come with it.
    let headers: [String]
    /// Lines end with CR LF.
    let text: String
    let html: String

    /// `id` becomes part of the Message-ID.
    init(_ letter: Letter, from: Sender, to: MailAddress, id: String, at now: WallTime) {
        self.from = from.address
        self.to = to
        headers = [
            "Date: " + Self.date(now), "From: " + from.header, "To: " + to.text,
            "Subject: " + HeaderText.unstructured(letter.subject), "Message-ID: <\(id)@\(from.address.domain)>",
            // So that no absence note comes back (RFC 3834 §5).
            "Auto-Submitted: auto-generated",
        ]
        text = letter.plainText
        html = letter.html
    }

    /// RFC 5322 §3.3; it differs from the form of HTTP in how it names UTC.
    private static func date(_ now: WallTime) -> String {
        var out = ByteBuffer(capacity: 32)
        HTTPDate.write(now, into: &out)
        return out.readable.text.replacing("GMT", with: "+0000")
    }
}

/// What a webhook for text messages gets: `{"to","text"}`.
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

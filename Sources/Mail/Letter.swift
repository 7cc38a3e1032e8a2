internal import Wire

/// The content of a mail: subject, blocks and signature, rendered as plain text and HTML.
package struct Letter: Sendable, Equatable {
    /// A block of the body, from top to bottom.
    package enum Block: Sendable, Equatable {
        case text(String)
        /// A code to type or copy.
        case code(String)
        case link(url: String, label: String)
        /// Small print.
        case note(String)
    }

    package var subject: String
    package var blocks: [Block]
    /// The sender's name.
    package var signature: String
    /// A language tag.
    package var language = "en"
    /// The HTML of a template; nil: it is made of the blocks.
    package var ownHTML: String?

    /// The body as plain text; lines end with CR LF.
    var plainText: String {
        let parts = blocks.map { block in
            switch block {
            case .text(let text), .note(let text): text
            case .code(let code): "    " + code
            case .link(let url, let label): "\(label):\n\(url)"
            }
        }
        return ((parts + ["-- \n" + signature]).joined(separator: "\n\n") + "\n").replacing("\n", with: "\r\n")
    }

    /// The body as one HTML document without external resources; lines end with CR LF.
    var html: String {
        if let ownHTML { return ownHTML.replacing("\r\n", with: "\n").replacing("\n", with: "\r\n") }
        let parts = blocks.map { block in
            switch block {
            case .text(let text): "<p style=\"margin:0 0 16px\">\(Self.lines(text))</p>"
            case .note(let text): "<p style=\"margin:0 0 16px;font-size:14px;color:#6b7280\">\(Self.lines(text))</p>"
            case .code(let code): "<p style=\"\(Self.codeStyle)\">\(Self.escaped(code))</p>"
            case .link(let url, let label): Self.button(Self.escaped(url), Self.escaped(label))
            }
        }
        return """
            <!doctype html>
            <html lang="\(language)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width">
            <meta name="color-scheme" content="light dark">
            <title>\(Self.escaped(subject))</title>
            </head>
            <body style="margin:0;padding:32px 16px">
            <div style="max-width:480px;margin:0 auto;font:16px/1.5 -apple-system,'Segoe UI',Roboto,Arial,sans-serif">
            \(parts.joined(separator: "\n"))
            <p style="margin:32px 0 0;font-size:14px;color:#6b7280">\(Self.escaped(signature))</p>
            </div>
            </body>
            </html>

            """.replacing("\n", with: "\r\n")
    }

    private static let codeStyle =
        "margin:0 0 16px;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:30px;font-weight:700;letter-spacing:4px;overflow-wrap:anywhere"
    private static let buttonStyle =
        "display:inline-block;padding:12px 20px;border-radius:8px;background:#2742c9;color:#ffffff;font-weight:600;text-decoration:none"

    /// A button with its URL in plain view below, for readers who do not trust or cannot follow the link.
    private static func button(_ url: String, _ label: String) -> String {
        """
        <p style="margin:24px 0"><a href="\(url)" style="\(buttonStyle)">\(label)</a></p>
        <p style="margin:0 0 16px;font-size:14px;color:#6b7280;overflow-wrap:anywhere">\(url)</p>
        """
    }

    private static func lines(_ text: String) -> String { escaped(text).replacing("\n", with: "<br>\n") }

    static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;")
    }
}

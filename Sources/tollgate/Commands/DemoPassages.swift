internal import Wire

/// Demo data of `tollgate echo` below `/passages`: a list of free and premium texts, to try the tier filter. Echo returns all of them to
/// every caller; the gateway filters.
enum DemoPassages {
    private struct Passage {
        var id: Int
        var title: String
        var content: String
        var tier: String
    }

    private static let passages = [
        Passage(id: 1, title: "The Lighthouse", content: "Every evening the keeper climbed the stairs with a lamp.", tier: "free"),
        Passage(id: 2, title: "The Vault", content: "Behind the second door lay what the first had promised.", tier: "premium"),
        Passage(id: 3, title: "The Ferry", content: "It left at six, with or without the doctor.", tier: "free"),
        Passage(id: 4, title: "The Key", content: "It fitted no lock in the house, and was kept all the same.", tier: "premium"),
    ]

    /// The list at `/passages`, one passage at `/passages/2`; nil for any other path.
    static func render(path: String) -> [UInt8]? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: true)
        guard parts.first == "passages", parts.count <= 2 else { return nil }
        var json = JSONWriter()
        if parts.count == 1 {
            write(passages, &json)
        } else {
            guard let passage = passages.first(where: { String($0.id) == parts[1] }) else { return nil }
            write(passage, &json)
        }
        var out = json.finish()
        out.append(UInt8(ascii: "\n"))
        return out.readable.array
    }

    private static func write(_ passages: [Passage], _ json: inout JSONWriter) {
        json.beginObject()
        json.field("count", passages.count)
        json.key("next" as StaticString)
        json.null()
        json.key("previous" as StaticString)
        json.null()
        json.array("results", passages) { json, passage in write(passage, &json) }
        json.endObject()
    }

    private static func write(_ passage: Passage, _ json: inout JSONWriter) {
        json.beginObject()
        json.field("id", passage.id)
        json.field("title", passage.title)
        json.field("content", passage.content)
        json.field("tier", passage.tier)
        json.endObject()
    }
}

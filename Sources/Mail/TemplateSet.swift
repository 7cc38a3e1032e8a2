internal import Accounts
internal import System
internal import Wire

/// The templates of all messages in all languages: those of a folder, and where it has none, the gateway's own.
package struct TemplateSet: Sendable, Equatable {
    /// The folder of what readers of other languages get.
    private static let fallback = "default"
    private static let largestFile = 64 << 10

    /// By language, a tag in lower case, or `fallback`.
    private var templates: [String: [TemplateName: MessageTemplate]]

    /// The gateway's own.
    package static let builtIn: TemplateSet = {
        let made = BuiltInTemplates.texts.mapValues { texts in
            Dictionary(uniqueKeysWithValues: texts.map { ($0, MessageTemplate(builtIn: $0, $1)) })
        }
        return TemplateSet(templates: made)
    }()

    private init(templates: [String: [TemplateName: MessageTemplate]]) { self.templates = templates }

    /// The languages of the templates.
    package var languages: Set<String> { Set(templates.keys.filter { $0 != Self.fallback }) }

    /// The template for a reader of these languages, in the form of `Accept-Language`, and its language; empty for that of `fallback`, which
    /// names none.
    func template(_ name: TemplateName, for languages: String?) -> (template: MessageTemplate, language: String) {
        let best = languages.flatMap { PreferredLanguages($0).best(of: self.languages) }
        for language in (best.map(PreferredLanguages.broader) ?? []) + [Self.fallback, "en"] {
            if let template = templates[language]?[name] { return (template, language == Self.fallback ? "" : language) }
        }
        preconditionFailure("\(name.file) has no template")
    }
}

extension MessageTemplate {
    fileprivate init(builtIn name: TemplateName, _ text: String) {
        do throws(ParseError) { try self.init(name, text: text) } catch { preconditionFailure("\(name.file) \(error.text)") }
    }
}

// MARK: - the folder of `TOLLGATE_MAIL_TEMPLATES`

extension TemplateSet {
    /// Faults of files, and what a folder lacks.
    package struct Findings: Sendable {
        package var faults: [String] = []
        package var warnings: [String] = []

        package init() {}
    }

    /// The templates of a folder with a folder for each language. Each is rendered once. Blocks.
    package static func read(_ folder: String, _ findings: inout Findings) -> TemplateSet {
        var set = builtIn
        do throws(SystemFault) {
            let languages = try FileBytes.names(in: folder).filter { !$0.hasPrefix(".") }
            if languages.isEmpty { findings.warnings.append("\(folder) has no folder of a language, make one like \(folder)/fr") }
            for language in languages { try set.add(language, folder + "/" + language, &findings) }
        } catch {
            findings.faults.append(error.description)
        }
        return set
    }

    private mutating func add(_ language: String, _ folder: String, _ findings: inout Findings) throws(SystemFault) {
        guard language == Self.fallback || (PreferredLanguages.isTag(language) && language == language.lowercased()) else {
            return findings.faults.append("\(folder) has no name of a language, use one like fr or pt-br, or default")
        }
        let files = Set(try FileBytes.names(in: folder).filter { !$0.hasPrefix(".") })
        var found = templates[language] ?? [:]
        for name in TemplateName.allCases where files.contains(name.file + ".txt") {
            let hasHTML = files.contains(name.file + ".html") && !name.isSMS
            // The text by itself first, so that a fault is of one file.
            for file in ["txt"] + (hasHTML ? ["html"] : []) {
                do throws(ParseError) {
                    let text = try Self.text("\(folder)/\(name.file).txt")
                    let html = file == "html" ? try Self.text("\(folder)/\(name.file).html") : nil
                    found[name] = try MessageTemplate(name, text: text, html: html)
                } catch {
                    findings.faults.append("\(folder)/\(name.file).\(file) \(error.text)")
                    break
                }
            }
        }
        templates[language] = found
        warn(language, folder, files, &findings)
    }

    private func warn(_ language: String, _ folder: String, _ files: Set<String>, _ findings: inout Findings) {
        let wider = PreferredLanguages.broader(language)
        let missing = TemplateName.allCases.filter { name in
            !files.contains(name.file + ".txt") && !wider.contains { templates[$0]?[name] != nil }
        }
        if !missing.isEmpty {
            let names = missing.map { "\($0.file).txt" }.joined(separator: ", ")
            findings.warnings.append(
                "\(folder) lacks \(names): these messages are in \(language == Self.fallback ? "English" : "the default language")")
        }
        let names = Set(TemplateName.allCases.map(\.file))
        for file in files.sorted() {
            let stem = file.hasSuffix(".html") ? file.dropLast(5) : file.hasSuffix(".txt") ? file.dropLast(4) : ""
            if names.contains(String(stem)), files.contains(stem + ".txt"), file != "sms.html" { continue }
            findings.warnings.append(
                "\(folder)/\(file) is not used: \(names.contains(String(stem)) ? "there is no \(stem).txt" : "no message has this name")")
        }
    }

    private static func text(_ path: String) throws(ParseError) -> String {
        let bytes: [UInt8]
        do throws(SystemFault) {
            bytes = try FileBytes.read(path, limit: largestFile)
        } catch {
            throw ParseError("cannot be read: \(error.description)")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw ParseError("is not in UTF-8") }
        return text.hasPrefix("\u{FEFF}") ? String(text.dropFirst()) : text
    }
}

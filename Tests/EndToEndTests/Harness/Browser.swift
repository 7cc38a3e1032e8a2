import Foundation
import Glibc

/// A headless Chromium, driven by the DevTools protocol over a pair of pipes. One for all tests: it ends when its pipes
/// close, at the latest with the process that runs the tests. Belongs to one thread at a time.
final class Browser {
    private let process: Subprocess
    private let folder: Folder
    private let commands: Int32
    private let answers: Int32
    private var waiting: [UInt8] = []
    private var lastID = 0
    /// What came unasked, and from which page.
    private var events: [JSON] = []

    init() throws {
        folder = try Folder()
        let (commandsRead, commandsWrite) = try Subprocess.pipe()
        let (answersRead, answersWrite) = try Subprocess.pipe()
        (commands, answers) = (commandsWrite, answersRead)
        process = try Subprocess(
            "chromium",
            [
                // Tests may run as root, which its sandbox does not like; the pages are our own.
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
                "--user-data-dir=\(folder.path)", "about:blank",
            ], environment: ["HOME": folder.path], descriptors: [3: commandsRead, 4: answersWrite])
        Glibc.close(commandsRead)
        Glibc.close(answersWrite)
    }

    deinit {
        Glibc.close(commands)
        Glibc.close(answers)
    }

    /// Sends a command and waits for its answer. `parameters` are members of a JSON object.
    @discardableResult
    func call(_ method: String, _ parameters: String = "", session: String? = nil) throws -> JSON {
        lastID += 1
        let place = session.map { ",\"sessionId\":\(quotedJSON($0))" } ?? ""
        try send("{\"id\":\(lastID),\"method\":\(quotedJSON(method)),\"params\":{\(parameters)}\(place)}")
        while true {
            let message = try receive()
            guard message["id"].int == lastID else {
                events.append(message)
                continue
            }
            if let fault = message["error"]["message"].text { throw Fault("\(method): \(fault)") }
            return message["result"]
        }
    }

    /// The events of a page so far, by method.
    func events(_ method: String, session: String) -> [JSON] {
        events.filter { $0["method"].text == method && $0["sessionId"].text == session }.map { $0["params"] }
    }

    private func send(_ text: String) throws {
        let bytes = Array(text.utf8) + [0]
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { write(commands, $0.baseAddress! + sent, $0.count - sent) }
            guard count > 0 || errno == EINTR else { throw Fault("the browser takes no commands: \(process.complaints.now.suffix(5))") }
            sent += max(count, 0)
        }
    }

    private func receive() throws -> JSON {
        var room = [UInt8](repeating: 0, count: 65_536)
        while true {
            if let end = waiting.firstIndex(of: 0) {
                defer { waiting.removeSubrange(...end) }
                return try JSON(text(of: Array(waiting[..<end])))
            }
            var entry = pollfd(fd: answers, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, 120_000) > 0 else { throw Fault("the browser does not answer: \(process.complaints.now.suffix(5))") }
            let count = read(answers, &room, room.count)
            guard count > 0 else { throw Fault("the browser has ended: \(process.complaints.now.suffix(5))") }
            waiting += room[..<count]
        }
    }
}

/// A tab with storage of its own.
final class Page {
    let browser: Browser
    private let context: String
    private let session: String

    init(_ browser: Browser, width: Int = 1_000, height: Int = 800) throws {
        self.browser = browser
        guard let context = try browser.call("Target.createBrowserContext")["browserContextId"].text,
            let target = try browser.call("Target.createTarget", "\"url\":\"about:blank\",\"browserContextId\":\"\(context)\"")["targetId"]
                .text,
            let session = try browser.call("Target.attachToTarget", "\"targetId\":\"\(target)\",\"flatten\":true")["sessionId"].text
        else { throw Fault("the browser opens no page") }
        (self.context, self.session) = (context, session)
        for domain in ["Page", "Runtime", "Log"] { try call("\(domain).enable") }
        try call(
            "Emulation.setDeviceMetricsOverride",
            "\"width\":\(width),\"height\":\(height),\"deviceScaleFactor\":1,\"mobile\":\(width < 600)")
    }

    deinit {
        // A browser that has ended has closed its pages.
        _ = try? browser.call("Target.disposeBrowserContext", "\"browserContextId\":\"\(context)\"")
    }

    @discardableResult
    func call(_ method: String, _ parameters: String = "") throws -> JSON {
        try browser.call(method, parameters, session: session)
    }

    func open(_ url: String) throws {
        try call("Page.navigate", "\"url\":\(quotedJSON(url))")
        try wait("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    func reload() throws {
        try run("window.isOld = true")
        try call("Page.reload")
        try wait("document.readyState === 'complete' && !window.isOld")
    }

    /// The value of an expression; a promise is waited for.
    @discardableResult
    func run(_ expression: String) throws -> JSON {
        let answer = try call("Runtime.evaluate", "\"expression\":\(quotedJSON(expression)),\"awaitPromise\":true,\"returnByValue\":true")
        if let fault = answer["exceptionDetails"]["exception"]["description"].text { throw Fault("\(expression): \(fault)") }
        return answer["result"]["value"]
    }

    /// Waits until an expression is true.
    func wait(_ expression: String) throws {
        let end = Date(timeIntervalSinceNow: 60)
        // While a page is exchanged for another there is none to ask.
        while (try? run("!!(\(expression))").bool) != true {
            guard Date() < end else { throw Fault("not within 60 s: \(expression); the page says \(try text("body"))") }
            usleep(20_000)
        }
    }

    func text(_ selector: String) throws -> String {
        try run("document.querySelector(\(quotedJSON(selector)))?.innerText ?? ''").text ?? ""
    }

    func click(_ selector: String) throws { try run("document.querySelector(\(quotedJSON(selector))).click()") }

    /// Types into a field as a person does.
    func fill(_ selector: String, _ text: String) throws {
        try run("(() => { const field = document.querySelector(\(quotedJSON(selector))); field.focus(); field.select() })()")
        try type(text)
    }

    func type(_ text: String) throws { try call("Input.insertText", "\"text\":\(quotedJSON(text))") }

    /// Presses a key by its name: `Tab`, `Enter`, `Escape`.
    func press(_ key: String) throws {
        let text = key == "Enter" ? ",\"text\":\"\\r\"" : ""
        let code = ["Tab": 9, "Enter": 13, "Escape": 27][key] ?? 0
        let members = "\"key\":\"\(key)\",\"code\":\"\(key)\",\"windowsVirtualKeyCode\":\(code)"
        try call("Input.dispatchKeyEvent", "\"type\":\"keyDown\",\(members)\(text)")
        try call("Input.dispatchKeyEvent", "\"type\":\"keyUp\",\(members)")
    }

    /// What the browser complains of: violations of the policy, and faults of the scripts.
    func complaints() throws -> [String] {
        // What comes unasked has come once this is answered.
        try run("1")
        let entries = browser.events("Log.entryAdded", session: session).map { $0["entry"] }.filter { $0["source"].text != "network" }
        let faults = browser.events("Runtime.exceptionThrown", session: session).map { $0["exceptionDetails"] }
        return entries.map { $0["text"].text ?? "" } + faults.map { $0["exception"]["description"].text ?? $0["text"].text ?? "" }
    }
}

/// Text as a JSON string, which JavaScript reads too.
func quotedJSON(_ text: String) -> String {
    do {
        return EndToEndTests.text(of: Array(try JSONEncoder().encode(text)))
    } catch {
        preconditionFailure("\(error)")
    }
}

internal import Settings
internal import Wire

/// The output and exit code of a command.
struct CommandResult: Equatable, Sendable {
    /// For standard output.
    var output = ""
    /// For standard error.
    var errorOutput = ""
    /// 0 done, 1 failed, 2 wrong usage or configuration.
    var exitCode: Int32 = 0

    /// A failure, as one sentence.
    static func failed(_ message: String, exitCode: Int32 = 1) -> Self {
        Self(errorOutput: "tollgate: \(message)\n", exitCode: exitCode)
    }

    /// A refused configuration: warnings, then faults, as `FILE:LINE: NAME: …`.
    static func refused(_ findings: Findings) -> Self {
        Self(errorOutput: warnings(findings) + findings.faults.map { $0.text + "\n" }.joined(), exitCode: 2)
    }

    static func warnings(_ findings: Findings) -> String {
        findings.warnings.map { "warning: \($0.text)\n" }.joined()
    }

    /// A JSON value on one line.
    static func json(exitCode: Int32 = 0, _ body: (inout JSONWriter) -> Void) -> Self {
        var out = ByteBuffer()
        JSONWriter.append(to: &out, body)
        return Self(output: out.readable.text + "\n", exitCode: exitCode)
    }
}

extension JSONWriter {
    /// Writes `"faults": […], "warnings": […]`.
    mutating func findings(_ findings: Findings) {
        array("faults", findings.faults) { $0.finding($1) }
        array("warnings", findings.warnings) { $0.finding($1) }
    }

    private mutating func finding(_ finding: Finding) {
        beginObject()
        switch finding.origin {
        case .file(let name, let line):
            field("file", name)
            field("line", line)
        case .wholeFile(let name): field("file", name)
        case .environment, .builtIn: field("source", finding.origin.text)
        }
        if let name = finding.name { field("name", name) }
        field("message", finding.message)
        endObject()
    }
}

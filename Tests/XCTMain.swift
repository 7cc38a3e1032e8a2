import Testing

/// The program that runs the tests. SwiftPM would look for tests of XCTest in an index of every source, unless there is a
/// file of this name.
@main
struct TestProgram {
    static func main() async { await Testing.__swiftPMEntryPoint() as Never }
}

import Glibc

/// Runs `body` on `count` threads of its own, and waits for all.
func runThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    final class Start {
        let number: Int
        let body: @Sendable (Int) -> Void
        init(_ number: Int, _ body: @escaping @Sendable (Int) -> Void) {
            self.number = number
            self.body = body
        }
    }
    var threads: [pthread_t] = []
    for number in 0..<count {
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(number, body))
        pthread_create(
            &thread, nil,
            { argument in
                let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
                start.body(start.number)
                return nil
            }, start.toOpaque())
        threads.append(thread)
    }
    for thread in threads { pthread_join(thread, nil) }
}

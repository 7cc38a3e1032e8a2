internal import Synchronization
package import Wire

/// Tells workers until when the newest token of a session is valid, for streams that a refresh extends: at any gateway, so the
/// store is asked. One question about a session at a time, however many streams it has.
package final class SessionExpiries: Sendable {
    /// In seconds since 1970; nil if the session has ended or the store does not answer.
    package typealias Answer = @Sendable (Int64?) -> Void

    private let question: @Sendable (UUID) async -> Int64?
    /// By the sessions that are being asked about: the streams that came after the question, which are answered by the next one.
    private let waiting = Mutex<[UUID: [Answer]]>([:])

    package init(_ question: @escaping @Sendable (UUID) async -> Int64?) { self.question = question }

    /// Any thread; returns at once.
    package func ask(_ session: UUID, _ answer: @escaping Answer) {
        let isFirst = waiting.withLock { waiting in
            defer { waiting[session, default: []].append(answer) }
            return waiting[session] == nil
        }
        guard isFirst else { return }
        // Unstructured, because the caller is an event loop: it ends with the last answer, which comes in bounded time.
        Task {
            while let answers = next(session) {
                let newest = await question(session)
                for answer in answers { answer(newest) }
            }
        }
    }

    /// The streams that wait; nil, and the session is forgotten, if none does.
    private func next(_ session: UUID) -> [Answer]? {
        waiting.withLock { waiting in
            guard let answers = waiting[session], !answers.isEmpty else {
                waiting[session] = nil
                return nil
            }
            waiting[session] = []
            return answers
        }
    }
}

package import Fetch

/// Sends one request to a store and waits for its answer: `TransferThread.send` in production, a scripted store in tests.
package typealias StoreTransport = @Sendable (HTTPTransfer) async -> EndedTransfer

internal import CCurl

/// Several transfers by libcurl at a time. Belongs to the one thread that made it; only its `waker` leaves it.
@safe final class TransferGroup {
    let waker: TransferWaker
    private let group: UnsafeMutableRawPointer
    /// The handles keep a pointer to theirs without a count: it must stay here until `end`.
    private var transfers: [UnsafeMutableRawPointer: Transfer] = unsafe [:]

    /// nil when libcurl has no memory.
    init?() {
        guard let group = unsafe ccurl_group_new() else { return nil }
        unsafe self.group = group
        waker = unsafe TransferWaker(group)
    }

    deinit {
        waker.close()
        for unsafe handle in unsafe transfers.keys { unsafe ccurl_transfer_free(group, handle) }
        unsafe ccurl_group_free(group)
    }

    /// How many are under way.
    var count: Int { unsafe transfers.count }

    /// Begins a transfer that `make` prepares with the group and where the answer goes; `wait` hands out under `id` what
    /// came of it. At most `largestBody` bytes of an answer are taken. False when libcurl refuses.
    func start(
        _ id: Int, largestBody: Int, _ make: (UnsafeMutableRawPointer, ccurl_receiver) -> UnsafeMutableRawPointer?
    ) -> Bool {
        let transfer = Transfer(id, largestBody: largestBody)
        let receiver = unsafe ccurl_receiver(
            receive: Transfer.receive, context: Unmanaged.passUnretained(transfer).toOpaque())
        guard let handle = unsafe make(group, receiver) else { return false }
        unsafe transfers[handle] = transfer
        return true
    }

    /// Moves all transfers on, for at most `milliseconds` or until woken, and answers those that ended.
    func wait(milliseconds: Int32) -> [EndedTransfer] {
        let ended = takeEnded()
        guard ended.isEmpty else { return ended }
        unsafe ccurl_group_wait(group, milliseconds)
        return takeEnded()
    }

    private func takeEnded() -> [EndedTransfer] {
        unsafe ccurl_group_advance(group)
        var ended: [EndedTransfer] = []
        var outcome: Int32 = 0
        while let handle = unsafe ccurl_group_next_ended(group, &outcome) {
            if let transfer = unsafe transfers[handle] { ended.append(unsafe EndedTransfer(handle, transfer, outcome)) }
            unsafe ccurl_transfer_free(group, handle)
            unsafe transfers[handle] = nil
        }
        return ended
    }
}

/// What came of one transfer.
struct EndedTransfer {
    let id: Int
    /// The status of the last answer: of HTTP, or the code of SMTP. 0 without one.
    let status: Int
    let body: [UInt8]
    /// Whether the answer held more than may be taken.
    let isTooLarge: Bool
    /// Fields of the answer as they came, without any check.
    let cacheControl: String?
    let date: String?
    let age: String?
    private let outcome: Int32

    fileprivate init(_ handle: UnsafeMutableRawPointer, _ transfer: Transfer, _ outcome: Int32) {
        id = transfer.id
        status = unsafe ccurl_transfer_status(handle)
        body = transfer.body
        isTooLarge = transfer.isTooLarge
        cacheControl = unsafe Self.field("Cache-Control", of: handle)
        date = unsafe Self.field("Date", of: handle)
        age = unsafe Self.field("Age", of: handle)
        self.outcome = outcome
    }

    private static func field(_ name: String, of handle: UnsafeMutableRawPointer) -> String? {
        unsafe ccurl_transfer_field(handle, name).map { unsafe String(cString: $0) }
    }

    /// Why libcurl broke the transfer off; nil if it came to its end, whatever the answer says.
    var complaint: String? { outcome == 0 ? nil : unsafe String(cString: ccurl_outcome_text(outcome)) }
    /// Whether the server did not accept user and password.
    var isLoginDenied: Bool { ccurl_outcome_is_login_denied(outcome) != 0 }
}

/// One answer as it comes in.
private final class Transfer {
    let id: Int
    private let largestBody: Int
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false

    init(_ id: Int, largestBody: Int) {
        self.id = id
        self.largestBody = largestBody
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        isTooLarge = body.count + bytes.count > largestBody
        if !isTooLarge { unsafe body.append(contentsOf: bytes) }
        return !isTooLarge
    }

    /// What libcurl calls.
    static let receive: ccurl_receive = { bytes, count, context in
        guard let context = unsafe context else { return 0 }
        let transfer = unsafe Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        return unsafe transfer.take(UnsafeRawBufferPointer(start: bytes, count: count)) ? count : 0
    }
}

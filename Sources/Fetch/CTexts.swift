/// C strings that live until the end of a call; libcurl copies what it is given.
@safe final class CTexts {
    private var texts: [UnsafeMutablePointer<CChar>] = unsafe []
    private var lists: [UnsafeMutablePointer<UnsafePointer<CChar>?>] = unsafe []

    func keep(_ text: String) -> UnsafePointer<CChar> {
        let bytes = text.utf8CString
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
        for (offset, byte) in bytes.enumerated() { unsafe copy[offset] = byte }
        unsafe texts.append(copy)
        return unsafe UnsafePointer(copy)
    }

    /// The texts, followed by nil.
    func keep(list: [String]) -> UnsafePointer<UnsafePointer<CChar>?> {
        let copy = UnsafeMutablePointer<UnsafePointer<CChar>?>.allocate(capacity: list.count + 1)
        for (offset, text) in list.enumerated() { unsafe copy[offset] = keep(text) }
        unsafe copy[list.count] = nil
        unsafe lists.append(copy)
        return unsafe UnsafePointer(copy)
    }

    deinit {
        for unsafe text in unsafe texts { unsafe text.deallocate() }
        for unsafe list in unsafe lists { unsafe list.deallocate() }
    }
}

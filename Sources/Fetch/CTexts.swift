/// Owner of C strings for the duration of a libcurl call; libcurl copies them.
@safe final class CTexts {
    private var texts: [UnsafeMutablePointer<CChar>] = unsafe []
    private var lists: [UnsafeMutablePointer<UnsafePointer<CChar>?>] = unsafe []

    /// A copy of `text`, valid as long as this object.
    func keep(_ text: String) -> UnsafePointer<CChar> {
        let bytes = text.utf8CString
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
        for (offset, byte) in bytes.enumerated() { unsafe copy[offset] = byte }
        unsafe texts.append(copy)
        return unsafe UnsafePointer(copy)
    }

    /// A nil-terminated list of copies.
    func keep(list: [String]) -> UnsafePointer<UnsafePointer<CChar>?> {
        let copy = UnsafeMutablePointer<UnsafePointer<CChar>?>.allocate(capacity: list.count + 1)
        for (offset, text) in list.enumerated() { unsafe copy[offset] = keep(text) }
        unsafe copy[list.count] = nil
        unsafe lists.append(copy)
        return unsafe UnsafePointer(copy)
    }

    deinit {
        // swift-format-ignore
        for unsafe text in unsafe texts { unsafe text.deallocate() }
        // swift-format-ignore
        for unsafe list in unsafe lists { unsafe list.deallocate() }
    }
}

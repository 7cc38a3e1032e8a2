import COpenSSL
import Wire

extension NativeCertificate {
    /// Whether the certificate, `intermediate` and `root` are a chain that OpenSSL accepts: signatures, basic constraints and the other
    /// rules of RFC 5280 (`X509_V_FLAG_X509_STRICT`), for any purpose; and whether all are valid at `time`.
    func chains(by intermediate: NativeCertificate, to root: NativeCertificate, at time: WallTime) -> Bool {
        guard [self, intermediate, root].allSatisfy({ $0.isValid(at: time.seconds) }) else { return false }
        defer { ERR_clear_error() }
        guard let store = unsafe X509_STORE_new() else { return false }
        defer { unsafe X509_STORE_free(store) }
        guard let context = unsafe X509_STORE_CTX_new() else { return false }
        defer { unsafe X509_STORE_CTX_free(context) }
        guard let others = unsafe tls_stack_new() else { return false }
        defer { unsafe tls_stack_free(others) }
        guard unsafe X509_STORE_add_cert(store, root.pointer) == 1, unsafe tls_stack_push(others, intermediate.pointer) == 1,
            unsafe X509_STORE_CTX_init(context, store, pointer, others) == 1
        else { return false }
        unsafe X509_STORE_CTX_set_flags(context, UInt(X509_V_FLAG_X509_STRICT | X509_V_FLAG_NO_CHECK_TIME))
        guard unsafe X509_verify_cert(context) == 1, let chain = unsafe X509_STORE_CTX_get0_chain(context),
            unsafe OPENSSL_sk_num(chain) == 3, let second = unsafe OPENSSL_sk_value(chain, 1)
        else { return false }
        return unsafe X509_cmp(OpaquePointer(second), intermediate.pointer) == 0
    }

    /// Whether the time, in seconds since 1970, is in the certificate's validity, both ends included (RFC 5280 §4.1.2.5). OpenSSL before 4
    /// excludes the last second.
    private func isValid(at seconds: Int64) -> Bool {
        guard let beginsAt, let expiresAt else { return false }
        return beginsAt.seconds <= seconds && seconds <= expiresAt.seconds
    }

    /// Whether exactly one extension has this object identifier.
    func hasExtension(_ identifier: String) -> Bool {
        guard let object = unsafe OBJ_txt2obj(identifier, 1) else { return false }
        defer { unsafe ASN1_OBJECT_free(object) }
        let first = unsafe X509_get_ext_by_OBJ(pointer, object, -1)
        return unsafe first >= 0 && X509_get_ext_by_OBJ(pointer, object, first) < 0
    }

    /// The public key; nil if OpenSSL cannot read it.
    var publicKey: NativeKey? {
        defer { ERR_clear_error() }
        return unsafe X509_get_pubkey(pointer).map { unsafe NativeKey(adopting: $0) }
    }
}

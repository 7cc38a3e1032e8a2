import COpenSSL

/// TLS parameters shared by servers and clients.
enum TLSProtocols {
    /// Mozilla's "intermediate" profile: versions, ciphers and groups, without finite-field groups.
    static func configure(_ context: OpaquePointer) {
        _ = unsafe tls_set_versions(context, TLS1_2_VERSION, TLS1_3_VERSION)
        unsafe SSL_CTX_set_ciphersuites(
            context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256")
        unsafe SSL_CTX_set_cipher_list(
            context,
            """
            ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
            ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305
            """)
        _ = unsafe tls_set_groups(context, "X25519:P-256:P-384")
        unsafe tls_set_mode(context)
        // One call reads a whole record, and bytes behind it.
        unsafe tls_set_read_ahead(context)
        unsafe tls_set_options(context)
    }

    /// ALPN's length-prefixed names (RFC 7301, 3.1). The caller frees the buffer.
    static func encode(_ names: [String]) -> UnsafeMutableBufferPointer<UInt8> {
        let bytes = names.flatMap { [UInt8(clamping: $0.utf8.count)] + $0.utf8.prefix(255) }
        let encoded = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = unsafe encoded.initialize(fromContentsOf: bytes)
        return unsafe encoded
    }

    /// Result of an ALPN callback: the first of our protocols that is offered, otherwise the fatal alert of RFC 7301, 3.2.
    static func select(
        _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ count: UnsafeMutablePointer<UInt8>?,
        _ mine: UnsafeMutableBufferPointer<UInt8>, _ offered: UnsafePointer<UInt8>?, _ offeredCount: UInt32
    ) -> Int32 {
        var name: UnsafeMutablePointer<UInt8>?
        let result = unsafe SSL_select_next_proto(
            &name, count, mine.baseAddress, UInt32(mine.count), offered, offeredCount)
        guard result == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        unsafe chosen?.pointee = unsafe UnsafePointer(name)
        return SSL_TLSEXT_ERR_OK
    }
}

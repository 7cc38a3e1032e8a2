/// Made with the openssl command, good until 2126; the pins are what it computes:
/// `openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64`.
enum PinFixtures {
    /// For API.example.com, *.example.com and 192.0.2.1.
    static let leaf = """
        -----BEGIN CERTIFICATE-----
        MIIBvTCCAWKgAwIBAgIUJg/ngsIb+uXt+ybJ3JbFiAkolwwwCgYIKoZIzj0EAwIw
        KzESMBAGA1UECgwJQsOkY2tlcmVpMRUwEwYDVQQDDAxFeGFtcGxlIFJvb3QwIBcN
        MjYxMTIxMTkyNzAwWhgPMjEyNjEwMjgxOTI3MDBaMBoxGDAWBgNVBAMMD2FwaS5l
        eGFtcGxlLmNvbTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNMnuYfKeBUSIm1y
        6YOKnSgVvKT7ISm67jq5t27GXvFvoMA+m5XMP8/6ZxbaeB5JhusGhEfc55WHsJZt
        BB01bFWjczBxMC8GA1UdEQQoMCaCD0FQSS5leGFtcGxlLmNvbYINKi5leGFtcGxl
        LmNvbYcEwAACATAdBgNVHQ4EFgQU9a0/jYWSWIWOZFnc+nZQWfp8VEgwHwYDVR0j
        BBgwFoAUrWKvH70z1Rc45TaZzj+K9z+kH9swCgYIKoZIzj0EAwIDSQAwRgIhAM9T
        yE1U4Mtdb6SBsWutTfDIvFF3WTx6V9qTrF3zWZ2/AiEArkPw9zYcsxyaZcBYf6Qr
        IMifxf/d7Yb3+pNquhD6Dfc=
        -----END CERTIFICATE-----

        """
    static let leafPin = "fpgHavXQrgTtZQVahT7WpaJC4/hObB9xc/i7sLHztF4="

    static let leafKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/fFIG5iUyKTqV/ui
        7FgJg5WntPh7RZLR2U6U0SbtEx6hRANCAATTJ7mHyngVEiJtcumDip0oFbyk+yEp
        uu46ubduxl7xb6DAPpuVzD/P+mcW2ngeSYbrBoRH3OeVh7CWbQQdNWxV
        -----END PRIVATE KEY-----

        """

    /// The authority's, for no host.
    static let root = """
        -----BEGIN CERTIFICATE-----
        MIIBrDCCAVOgAwIBAgIUZsne4cHWTaUxXvXmCT/IkcpxaHQwCgYIKoZIzj0EAwIw
        KzESMBAGA1UECgwJQsOkY2tlcmVpMRUwEwYDVQQDDAxFeGFtcGxlIFJvb3QwIBcN
        MjYxMTIxMTkyNzAwWhgPMjEyNjEwMjgxOTI3MDBaMCsxEjAQBgNVBAoMCULDpGNr
        ZXJlaTEVMBMGA1UEAwwMRXhhbXBsZSBSb290MFkwEwYHKoZIzj0CAQYIKoZIzj0D
        AQcDQgAEmdrdqTxfuxvZ6qWE2Jo1PoNBO+Inzl2Rjy7gxViu5Dkpw8JRyItjAiXh
        OcnUFmH97+vWmdIWSiABfZivbyIr1qNTMFEwHQYDVR0OBBYEFK1irx+9M9UXOOU2
        mc4/ivc/pB/bMB8GA1UdIwQYMBaAFK1irx+9M9UXOOU2mc4/ivc/pB/bMA8GA1Ud
        EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgPUdX4mZOwB3e19l5K/L5dYjw
        PsWpbQgkWVVyhrscylECIFMNzxTO7DeBqXcMfM92AHjmnAwemlTZlpOnnB771MMA
        -----END CERTIFICATE-----

        """
    static let rootPin = "taxnxN2Kqts3sm4WH5XiTbrT5Bks1V1fdkIoDsqQpDc="

    /// One key in its two forms.
    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArO9IHYLQqQ0zo7OXcOqi
        ofyt/jDOXav7GcQRqNvMl+KPCKvJosUPGy+VnK8j+uTgrmTt96Rjie5EaX2Weq/j
        vYz2lb6Jb0ngx6QJjUYGaoLJm0sovZ5ZG7c8/sOv7rQiVwWBqzU59ToWd4MMAZqe
        P7n3KYqid4axERf8erJv2TpWgUAIQn896ou7U0vtXChottBTlieVZD51itNoP0sm
        J3/k565Bk28r05S2X0pfKAgL7uBe5RxdopaMWmxRkKagcv9iyKXg098bm4llQk6n
        TycMvBLkmjifTPp1P7ywIeo/hYg5CPmcTFh8EmQQmqogsZtjrkv/oNUh5vpxTLu1
        xwIDAQAB
        -----END PUBLIC KEY-----

        """
    static let publicKeyOldForm = """
        -----BEGIN RSA PUBLIC KEY-----
        MIIBCgKCAQEArO9IHYLQqQ0zo7OXcOqiofyt/jDOXav7GcQRqNvMl+KPCKvJosUP
        Gy+VnK8j+uTgrmTt96Rjie5EaX2Weq/jvYz2lb6Jb0ngx6QJjUYGaoLJm0sovZ5Z
        G7c8/sOv7rQiVwWBqzU59ToWd4MMAZqeP7n3KYqid4axERf8erJv2TpWgUAIQn89
        6ou7U0vtXChottBTlieVZD51itNoP0smJ3/k565Bk28r05S2X0pfKAgL7uBe5Rxd
        opaMWmxRkKagcv9iyKXg098bm4llQk6nTycMvBLkmjifTPp1P7ywIeo/hYg5CPmc
        TFh8EmQQmqogsZtjrkv/oNUh5vpxTLu1xwIDAQAB
        -----END RSA PUBLIC KEY-----

        """
    static let publicKeyPin = "9C0ScqffvjatpP8vjS0tjpCTt87/nyQAqan9IE8QQx8="
}

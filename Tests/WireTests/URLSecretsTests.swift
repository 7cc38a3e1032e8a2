import Testing
import Wire

@Suite struct URLSecretsTests {
    @Test(arguments: [
        ("http://user:pass@host/path", "http://***@host/path"), ("http://token@host", "http://***@host"),
        ("http://host/a@b", "http://host/a@b"),
        ("http://host:80/a@b", "http://host:80/a@b"), ("http://u:p@a:80,http://v:q@b x", "http://***@a:80,http://***@b x"),
        ("/r/* upstream=u jwks=https://u:p/w@host/k.json audience=any", "/r/* upstream=u jwks=https://***@host/k.json audience=any"),
        ("\"https://u:p@h\" is no URL", "\"https://***@h\" is no URL"),
        ("a plain text with @ and : in it", "a plain text with @ and : in it"),
        ("://", "://"), ("", ""), ("redis://:p@h/0", "redis://***@h/0"),
        ("https://h/k?key=1", "https://h/k?***"), ("https://h?key=1#f", "https://h?***"), ("https://u:p@h/k?a=b@c", "https://***@h/k?***"),
        ("https://u:p?w@h/k?a=b", "https://***@h/k?***"), ("jwks=https://h/k?key=1 audience=any?", "jwks=https://h/k?*** audience=any?"),
        ("\"https://h/k?key=1\" is no URL", "\"https://h/k?***\" is no URL"), ("https://h/k?next=https://v:q@x", "https://h/k?***"),
        ("https://a,https://u:p@b?k=1", "https://a,https://***@b?***"), ("https://h/k?a='b'c", "https://h/k?***"),
        ("http://u:#p@h", "http://***@h"), ("http://u:12#p@h/x", "http://***@h/x"), ("http://u:?p@h", "http://***@h"),
        ("redis://:#p@h/0", "redis://***@h/0"),
        ("http://u:/p@h", "http://***@h"), ("http://h:80/#a@b", "http://h:80/#a@b"), ("http://h:80?next=1", "http://h:80?***"),
        ("http://u:9?p@h", "http://***@h"),
        ("is this a query? https://h", "is this a query? https://h"),
    ])
    func userPasswordAndQueryOfAURLAreMasked(_ text: String, _ masked: String) { #expect(maskingURLSecrets(text) == masked) }
}

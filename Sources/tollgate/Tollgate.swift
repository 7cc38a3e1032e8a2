@main
struct Tollgate {
    static func main() {}
}

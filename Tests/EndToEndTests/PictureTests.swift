import Foundation
import TestThreads
import Testing

/// The pictures of the pages, as a browser draws them with the widest of the common fonts.
@Suite(.serialized, .ownThread) struct PictureTests {
    @Test(arguments: ["architecture", "growth", "overview"])
    func noTextLeavesItsPlaceOrMeetsAnother(_ name: String) throws {
        let page = try Page(try Browser(), width: 920, height: 760)
        try page.open("file://" + DocumentPage.root.appending(path: "docs/images/\(name).svg").path)
        try page.wait("document.querySelector('svg text')")
        let faults = """
            (() => {
              for (const text of document.querySelectorAll('text')) text.style.fontFamily = 'DejaVu Sans';
              const view = document.documentElement.viewBox.baseVal;
              const boxes = [...document.querySelectorAll('rect')].map((e) => e.getBBox());
              const texts = [...document.querySelectorAll('text')].map((e) => ({ text: e.textContent, box: e.getBBox() }));
              const holds = (outer, { x, y, width, height }) =>
                outer.x <= x && outer.y <= y && x + width <= outer.x + outer.width && y + height <= outer.y + outer.height;
              const point = ({ x, y, height }) => ({ x, y: y + height / 2, width: 1, height: 1 });
              const found = texts.filter(({ box }) => !holds(view, box) || boxes.some((outer) => holds(outer, point(box)) && !holds(outer, box)))
                .map(({ text }) => `${text} leaves its place`);
              texts.forEach(({ text, box }, index) => texts.slice(index + 1).forEach(({ text: other, box: its }) => {
                const width = Math.min(box.x + box.width, its.x + its.width) - Math.max(box.x, its.x);
                const height = Math.min(box.y + box.height, its.y + its.height) - Math.max(box.y, its.y);
                if (width > 0 && height > 3) found.push(`${text} meets ${other}`);
              }));
              return found.join('; ');
            })()
            """
        #expect(try page.run(faults).text == "")
    }
}

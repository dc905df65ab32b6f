//! What every report's page is made of: the document around it, tables, figures.
//!
//! A page is well-formed XML as well as HTML, so that a test can check it strictly.

use super::chart::Chart;
use super::format::{capitalised, count, escape, number, optional, symbol_html};
use super::measures::{self, Measured};

const PAGE_STYLE: &str = include_str!("page.css");
const CHART_STYLE: &str = include_str!("chart.css");
const SCRIPT: &str = include_str!("page.js");

/// A chart with its caption, and a name for its file.
pub(super) struct Figure {
    /// File name without extension.
    pub(super) stem: String,
    /// What is shown, in a few words; plain text.
    pub(super) title: String,
    /// How to read it; plain text, may be empty.
    pub(super) caption: String,
    /// The drawing.
    pub(super) chart: Chart,
}

/// The whole document around `body`.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{}</title>\n\
         <style>\n{CHART_STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(title)
    )
}

/// A section under a heading; nothing when it has no content.
pub(super) fn section(heading: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escape(heading))
}

/// What shows when the reader wants it; nothing when it has no content.
pub(super) fn folded(summary: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<details>\n<summary>{}</summary>\n{content}</details>\n", escape(summary))
}

/// Figures in two columns where there is room, numbered on from `first`.
pub(super) fn figures(figures: &[Figure], first: usize) -> String {
    columns(figures, first, "figures")
}

/// Figures in three columns where there is room, numbered on from `first`.
pub(super) fn narrow_figures(figures: &[Figure], first: usize) -> String {
    columns(figures, first, "figures three")
}

fn columns(figures: &[Figure], first: usize, class: &str) -> String {
    let each = |(i, figure): (usize, &Figure)| {
        let caption =
            if figure.caption.is_empty() { String::new() } else { format!(" {}", escape(&figure.caption)) };
        format!(
            "<figure>\n{}<figcaption><b>Figure {}. {}.</b>{caption}</figcaption>\n</figure>\n",
            figure.chart.inline(),
            first + i,
            symbol_html(&figure.title)
        )
    };
    if figures.is_empty() {
        return String::new();
    }
    format!("<div class=\"{class}\">\n{}</div>\n", figures.iter().enumerate().map(each).collect::<String>())
}

/// A box that must not be overlooked; `content` is markup.
pub(super) fn warning(content: &str) -> String {
    format!("<p class=\"warning\">{content}</p>\n")
}

/// How far `value` is along the way to `limit`, as a bar with a mark at the limit, and in words.
pub(super) fn margin_bar(value: f64, limit: f64, met: bool) -> String {
    const FULL: f64 = 1.25;
    let ratio = if limit > 0.0 && value.is_finite() {
        (value / limit).clamp(0.0, FULL)
    } else if met {
        0.0
    } else {
        FULL
    };
    let width = number(ratio / FULL * 100.0, 3);
    let words = if limit > 0.0 && value.is_finite() {
        let percent = number(((limit - value) / limit * 100.0).abs(), 2);
        if met { format!("{percent} % left") } else { format!("{percent} % over") }
    } else if met {
        "met".to_owned()
    } else {
        "not met".to_owned()
    };
    let class = if met { "bar" } else { "bar over" };
    format!("<span class=\"{class}\"><i style=\"width:{width}%\"></i></span> {words}")
}

/// What one measured value after the other is; nothing without any.
pub(super) fn measures(caption: &str, values: Vec<Measured>) -> String {
    let mut table = Table::new(caption).text("measure").number("value", "").text("unit");
    for one in measures::on_page(values) {
        table.row(&[symbol_html(&capitalised(&one.name)), optional(one.value, 5), one.unit.to_owned()]);
    }
    table.html()
}

/// A column of a table of things of one kind: its head, its unit, and what a thing has there.
pub(super) struct Column<T: ?Sized> {
    head: &'static str,
    unit: &'static str,
    cell: Cell<T>,
}

enum Cell<T: ?Sized> {
    Text(fn(&T) -> String),
    Numeral(fn(&T) -> String),
    Count(fn(&T) -> u64),
    Number(fn(&T) -> Option<f64>, usize),
}

impl<T: ?Sized> Column<T> {
    /// Text that is markup already.
    pub(super) const fn markup(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, unit: "", cell: Cell::Text(cell) }
    }

    /// Text that is set as a number.
    pub(super) const fn numeral(head: &'static str, unit: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, unit, cell: Cell::Numeral(cell) }
    }

    /// A plain count.
    pub(super) const fn count(head: &'static str, unit: &'static str, cell: fn(&T) -> u64) -> Self {
        Self { head, unit, cell: Cell::Count(cell) }
    }

    /// At most so many significant digits.
    pub(super) const fn number(
        digits: usize,
        head: &'static str,
        unit: &'static str,
        cell: fn(&T) -> Option<f64>,
    ) -> Self {
        Self { head, unit, cell: Cell::Number(cell, digits) }
    }

    fn cell(&self, of: &T) -> String {
        match self.cell {
            Cell::Text(text) | Cell::Numeral(text) => text(of),
            Cell::Count(number) => count(number(of)),
            Cell::Number(value, digits) => optional(value(of), digits),
        }
    }
}

/// A table that scrolls sideways where it must, and that a script lets readers copy. Its first column heads the rows.
pub(super) struct Table {
    caption: String,
    groups: String,
    head: String,
    numeric: Vec<bool>,
    body: String,
}

impl Table {
    /// An empty one; `caption` is markup.
    pub(super) fn new(caption: &str) -> Self {
        let (groups, head, body) = (String::new(), String::new(), String::new());
        Self { caption: caption.to_owned(), groups, head, numeric: Vec::new(), body }
    }

    /// A row for each of `things`.
    pub(super) fn of<'a, T: 'a>(
        caption: &str,
        columns: &[Column<T>],
        things: impl IntoIterator<Item = &'a T>,
    ) -> String {
        Self::new(caption).filled(columns, things).html()
    }

    /// With these columns, and a row for each of `things`.
    pub(super) fn filled<'a, T: 'a>(
        self,
        columns: &[Column<T>],
        things: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        let mut table = columns.iter().fold(self, |table, column| match column.cell {
            Cell::Text(_) => table.text(column.head),
            _ => table.number(column.head, column.unit),
        });
        for thing in things {
            table.row(&columns.iter().map(|column| column.cell(thing)).collect::<Vec<_>>());
        }
        table
    }

    /// Adds a column of text; `head` is markup, as are all cells.
    pub(super) fn text(mut self, head: &str) -> Self {
        self.head.push_str(&format!("<th scope=\"col\">{head}</th>"));
        self.numeric.push(false);
        self
    }

    /// Adds a column of numbers, set flush right; the unit goes below the head.
    pub(super) fn number(mut self, head: &str, unit: &str) -> Self {
        let unit = if unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(unit)) };
        self.head.push_str(&format!("<th scope=\"col\" class=\"n\">{head}{unit}</th>"));
        self.numeric.push(true);
        self
    }

    /// Adds a heading above the next `columns` columns; groups and columns are added independently.
    pub(super) fn group(mut self, head: &str, columns: usize) -> Self {
        self.groups.push_str(&format!("<th scope=\"colgroup\" colspan=\"{columns}\">{head}</th>"));
        self
    }

    /// Adds a row of as many cells as there are columns.
    pub(super) fn row(&mut self, cells: &[String]) {
        debug_assert_eq!(cells.len(), self.numeric.len(), "a cell per column");
        self.body.push_str("<tr>");
        for (i, (cell, numeric)) in cells.iter().zip(&self.numeric).enumerate() {
            let class = if *numeric { " class=\"n\"" } else { "" };
            let cell = if i == 0 {
                format!("<th scope=\"row\"{class}>{cell}</th>")
            } else {
                format!("<td{class}>{cell}</td>")
            };
            self.body.push_str(&cell);
        }
        self.body.push_str("</tr>\n");
    }

    /// The markup; nothing when there are no rows.
    pub(super) fn html(&self) -> String {
        if self.body.is_empty() {
            return String::new();
        }
        let groups =
            if self.groups.is_empty() { String::new() } else { format!("<tr>{}</tr>\n", self.groups) };
        // Not a caption element: that would scroll away with a wide table.
        let (captioned, caption) = match self.caption.as_str() {
            "" => ("", String::new()),
            caption => (" captioned", format!("<p class=\"caption\">{caption}</p>\n")),
        };
        format!(
            "<div class=\"table{captioned}\">{caption}<div class=\"scroll\">\n<table>\n<thead>{groups}<tr>{}</tr></thead>\n\
             <tbody>\n{}</tbody>\n</table>\n</div></div>\n",
            self.head, self.body
        )
    }
}

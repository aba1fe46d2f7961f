//! Measurements of other tools on a page: the verdicts as sentences, their ratios as a picture, and the typical values.

use super::{cells, file, forest, list};
use crate::{
    elsewhere::{self, Facts},
    numbers::{self, counted},
};
use fstrial_run::{
    contrast::Outcome,
    elsewhere::{Finding, Quantity, Table},
    typical::Typical,
};
use maud::{Markup, html};

/// The page of a table and its verdicts. `practical` is the band in percent.
pub fn page(facts: &Facts, table: &Table, found: &[Finding], practical: f64) -> String {
    let is_one = found.len() == 1;
    let title = match found {
        [one] => elsewhere::line(one, practical),
        _ => format!("{} of {}", counted(found.len(), "comparison"), facts.files),
    };
    let values = typical_values(table);
    let of =
        |quantity: &Quantity| found.iter().filter(|found| found.quantity == *quantity).collect::<Vec<_>>();
    let judged = table.quantities.iter().zip(values.chunks(table.arms.len().max(1)));
    let judged = judged.map(|(quantity, values)| (quantity, values, of(quantity)));
    let body = html! {
        header.top {
            h1 { (title) }
            p.when { (facts.files) ": " (elsewhere::how(facts)) }
            (list(&elsewhere::warnings(found)))
            (list(&facts.notes))
        }
        @for (quantity, values, found) in judged.filter(|(_, _, found)| !found.is_empty()) {
            section.trial {
                h2 { @match elsewhere::heading(quantity) { name if name.is_empty() => "Values", name => (name) } }
                @if !is_one { ul.verdicts { @for found in &found { li { (elsewhere::line(found, practical)) } } } }
                figure {
                    (forest::draw(&picture(&found, practical)))
                    figcaption { "Ratios with their intervals; the band is what does not matter. " (method(facts)) }
                }
                (value_table(table, quantity, values))
            }
        }
    };
    file(&title, &body, &html! { "the values are another program's" })
}

fn method(facts: &Facts) -> &'static str {
    match facts.rounds {
        Some(_) => "Arms are compared inside each round.",
        None => "The arms' values are compared as two groups, by ranks.",
    }
}

fn picture(found: &[&Finding], practical: f64) -> forest::Forest {
    let band = 1.0 + practical / 100.0;
    let is_less = found.iter().any(|found| found.quantity.less_is_better);
    let row = |found: &&Finding| {
        let value = found.ratio?;
        Some(forest::ForestRow {
            heading: None,
            arms: Vec::new(),
            label: format!("{} / {}", found.a, found.b),
            figure: numbers::with_interval(value, found.interval, numbers::ratio_digits),
            value,
            interval: found.interval,
            is_sure: found.verdict != Outcome::Undecided,
            then: None,
        })
    };
    forest::Forest {
        finding: "ratios of the arms, as in the list".into(),
        axis: if is_less { "ratio, less is better" } else { "ratio, more is better" }.into(),
        scale: forest::Scale::Ratio((band.recip(), band)),
        rows: found.iter().filter_map(row).collect(),
    }
}

/// The typical value of every arm, for one quantity after the other.
fn typical_values(table: &Table) -> Vec<Typical> {
    let mut all = vec![Typical::counted(); table.quantities.len() * table.arms.len()];
    for value in &table.values {
        all[value.quantity * table.arms.len() + value.arm].push(value.value);
    }
    all
}

fn value_table(table: &Table, quantity: &Quantity, values: &[Typical]) -> Markup {
    let rows: Vec<Vec<String>> = table
        .arms
        .iter()
        .zip(values)
        .filter(|(_, of_arm)| of_arm.runs() > 0)
        .map(|(arm, of_arm)| {
            let value = of_arm.value().map(|value| {
                numbers::with_interval(value, of_arm.interval_or_range(), |value| {
                    numbers::figure(value, &quantity.unit)
                })
            });
            vec![arm.clone(), of_arm.runs().to_string(), value.unwrap_or_default()]
        })
        .collect();
    let typical = match quantity.unit.as_str() {
        "" => "typical value".to_owned(),
        unit => format!("typical value, {unit}"),
    };
    html! {
        (cells("Typical values", &["arm", "values", typical.as_str()], &rows, 0))
        p.note { "Robust means with intervals of 95 %; of fewer than six values, their range." }
    }
}

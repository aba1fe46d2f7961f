//! One row for each run and number: as CSV, as JSON, as Parquet. The columns are the same in all three.

use super::other;
use fstrial_store::MetricRow;
use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::Type,
};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// Writes the rows of trials one after the other.
pub trait Rows {
    /// The rows of one trial.
    ///
    /// # Errors
    /// They could not be written.
    fn write(&mut self, rows: &[MetricRow]) -> io::Result<()>;

    /// Writes the rest at the end.
    ///
    /// # Errors
    /// It could not be written.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// CSV with one line of names.
pub fn csv<'a>(out: impl Write + 'a) -> Box<dyn Rows + 'a> {
    Box::new(Csv(csv::Writer::from_writer(out)))
}

struct Csv<W: Write>(csv::Writer<W>);

impl<W: Write> Rows for Csv<W> {
    fn write(&mut self, rows: &[MetricRow]) -> io::Result<()> {
        rows.iter().try_for_each(|row| self.0.serialize(as_text(row))).map_err(other)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()
    }
}

/// The row with names that a spreadsheet reads as text: a leading formula character makes a formula, and a foreign arm
/// may be named `=HYPERLINK(…)`.
fn as_text(row: &MetricRow) -> MetricRow {
    let text = |name: &String| match name.starts_with(['=', '+', '-', '@']) {
        true => format!("'{name}"),
        false => name.clone(),
    };
    let (arm, workload, phase) = (text(&row.arm), text(&row.workload), text(&row.phase));
    MetricRow { arm, workload, phase, metric: text(&row.metric), unit: text(&row.unit), ..row.clone() }
}

/// One JSON array.
pub fn json<'a>(out: impl Write + 'a) -> Box<dyn Rows + 'a> {
    Box::new(Json { out, separator: "[" })
}

struct Json<W> {
    out: W,
    /// Text before the next row.
    separator: &'static str,
}

impl<W: Write> Rows for Json<W> {
    fn write(&mut self, rows: &[MetricRow]) -> io::Result<()> {
        for row in rows {
            self.out.write_all(self.separator.as_bytes())?;
            serde_json::to_writer(&mut self.out, row)?;
            self.separator = ",";
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let end = if self.separator == "[" { "[]" } else { "]" };
        self.out.write_all(end.as_bytes())?;
        self.out.flush()
    }
}

/// Parquet: one row group for each trial, compressed with Snappy.
///
/// # Errors
/// The header could not be written.
pub fn parquet<'a>(out: impl Write + Send + 'a) -> io::Result<Box<dyn Rows + 'a>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("fstrial {}", env!("CARGO_PKG_VERSION")))
        .build();
    let writer = SerializedFileWriter::new(out, columns().map_err(other)?, Arc::new(properties));
    Ok(Box::new(Parquet(writer.map_err(other)?)))
}

struct Parquet<W: Write + Send>(SerializedFileWriter<W>);

/// The columns, in the order of [`MetricRow`]'s fields.
fn columns() -> Result<Arc<Type>, ParquetError> {
    let column = |name: &str, physical: Physical| {
        let text = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(text);
        column.build().map(Arc::new)
    };
    let fields = [
        ("trial", Physical::INT64),
        ("run", Physical::INT64),
        ("round", Physical::INT64),
        ("slot", Physical::INT64),
        ("arm", Physical::BYTE_ARRAY),
        ("workload", Physical::BYTE_ARRAY),
        ("threads", Physical::INT32),
        ("phase", Physical::BYTE_ARRAY),
        ("metric", Physical::BYTE_ARRAY),
        ("value", Physical::DOUBLE),
        ("unit", Physical::BYTE_ARRAY),
    ];
    let fields =
        fields.into_iter().map(|(name, physical)| column(name, physical)).collect::<Result<_, _>>()?;
    Type::group_type_builder("run_metric").with_fields(fields).build().map(Arc::new)
}

impl<W: Write + Send> Rows for Parquet<W> {
    fn write(&mut self, rows: &[MetricRow]) -> io::Result<()> {
        let mut group = self.0.next_row_group().map_err(other)?;
        write_group(&mut group, rows).map_err(other)?;
        group.close().map(drop).map_err(other)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.close().map(drop).map_err(other)
    }
}

/// Writes the columns in the order of [`columns`].
fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[MetricRow],
) -> Result<(), ParquetError> {
    let text = |of: fn(&MetricRow) -> &str| move |row: &MetricRow| ByteArray::from(of(row));
    column::<Int64Type, _>(group, rows, |row| row.trial.0)?;
    column::<Int64Type, _>(group, rows, |row| row.run.0)?;
    column::<Int64Type, _>(group, rows, |row| i64::from(row.round))?;
    column::<Int64Type, _>(group, rows, |row| i64::from(row.slot))?;
    column::<ByteArrayType, _>(group, rows, text(|row| &row.arm))?;
    column::<ByteArrayType, _>(group, rows, text(|row| &row.workload))?;
    column::<Int32Type, _>(group, rows, |row| i32::from(row.threads))?;
    column::<ByteArrayType, _>(group, rows, text(|row| &row.phase))?;
    column::<ByteArrayType, _>(group, rows, text(|row| &row.metric))?;
    column::<DoubleType, _>(group, rows, |row| row.value)?;
    column::<ByteArrayType, _>(group, rows, text(|row| &row.unit))
}

/// Writes one column, the next one.
fn column<D: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[MetricRow],
    of: impl Fn(&MetricRow) -> D::T,
) -> Result<(), ParquetError> {
    let values: Vec<D::T> = rows.iter().map(of).collect();
    let missing = || ParquetError::General("there are more columns than were declared".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<D>().write_batch(&values, None, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::unit;
    use fstrial_store::{RunId, TrialId};
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::Field,
    };
    use std::{cell::RefCell, rc::Rc};

    fn row(run: i64, arm: &str, value: f64) -> MetricRow {
        MetricRow {
            trial: TrialId(7),
            run: RunId(run),
            round: 1,
            slot: 2,
            arm: arm.into(),
            workload: "random-write".into(),
            threads: u16::MAX,
            phase: String::new(),
            metric: "throughput".into(),
            value,
            unit: unit::OPERATIONS.into(),
        }
    }

    /// A buffer that can be looked at after the writer is gone.
    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(of: fn(Shared) -> Box<dyn Rows>, trials: &[&[MetricRow]]) -> String {
        let out = Shared::default();
        let mut writer = of(out.clone());
        trials.iter().for_each(|rows| writer.write(rows).unwrap());
        writer.finish().unwrap();
        String::from_utf8(out.0.take()).unwrap()
    }

    #[test]
    fn csv_and_json_continue_across_trials() {
        let (a, b) = ([row(1, "a,\"b", 0.5)], [row(2, "c", 1e300), row(3, "d", -0.0)]);
        let lines = text(|out| csv(out), &[&a, &b]);
        assert_eq!(lines.lines().count(), 4, "{lines}");
        assert!(lines.starts_with("trial,run,round,slot,arm,workload,threads,phase,metric,value,unit\n"));
        assert!(lines.contains(r#"7,1,1,2,"a,""b",random-write,65535,,throughput,0.5,op/s"#), "{lines}");
        let array: Vec<serde_json::Value> = serde_json::from_str(&text(|out| json(out), &[&a, &b])).unwrap();
        assert_eq!(array.len(), 3);
        assert_eq!(array[0]["arm"], "a,\"b");
        // A spreadsheet would run them.
        let formulas = ["=HYPERLINK(1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)"].map(|arm| row(1, arm, 1.0));
        let lines = text(|out| csv(out), &[&formulas]);
        assert_eq!(lines.matches(",2,\'").count(), 4, "{lines}");
        assert_eq!(text(|out| json(out), &[&[], &[]]), "[]");
    }

    #[test]
    fn parquet_rows_round_trip() {
        let mut out = tempfile::tempfile().unwrap();
        let mut writer = parquet(&mut out).unwrap();
        writer.write(&[row(1, "größer", 0.25), row(2, "b", f64::MAX)]).unwrap();
        writer.write(&[row(3, "", -1.0)]).unwrap();
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(out).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let rows: Vec<Vec<Field>> = reader
            .into_iter()
            .map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect())
            .collect();
        let arms: Vec<String> = rows.iter().map(|row| row[4].to_string()).collect();
        assert_eq!(arms, ["\"größer\"", "\"b\"", "\"\""]);
        assert_eq!(rows[1][9], Field::Double(f64::MAX));
        assert_eq!((&rows[2][1], &rows[2][6]), (&Field::Long(3), &Field::Int(65535)));
    }
}

//! Encodes the columns that most rows are made of: texts, bytes and whole numbers, in structs or not.
//!
//! A [`Column`] takes the values of one leaf and makes the pages of its chunk of a row group. Parquet's
//! own writer takes all other types, and would take these; here each value is looked at once: its
//! dictionary gives the bounds as well, levels cost nothing where no value is NULL, and what has
//! nothing in it to find is not searched ([`codec`]).
//!
//! Read `Column`, then `texts` and `numbers`, then `pack`, which has the bits.

mod bounds;
mod codec;
mod dictionary;
mod leaf;
mod numbers;
mod pack;
mod pages;
mod texts;

use arrow_array::cast::AsArray;
use parquet::basic::{Encoding, PageType};
use parquet::column::page::Page;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::schema::types::ColumnDescPtr;

pub(crate) use codec::Codec;
use codec::Search;
pub(crate) use leaf::{Flat, Kind};
use leaf::{Leaf, Levels};
use numbers::NumberEncoder;
pub(crate) use pages::Pages;
use texts::{TextEncoder, Values};

use super::choice::Choice;

/// Rows of a page at most.
const PAGE_ROWS: usize = 20_000;

/// A page ends once it has so many bytes; one value may take it further.
const PAGE_BYTES: usize = 1 << 20;

/// Buffers that a long value made longer than this are let go after its page.
const BUFFER_BYTES: usize = 4 * PAGE_BYTES;

/// A dictionary ends once it has so many bytes: further values repeat too little.
const DICTIONARY_BYTES: usize = 1 << 20;

/// Distinct values, and of the page that is open each value's number.
#[derive(Debug)]
struct Dictionary<V> {
    values: V,
    indices: Vec<u32>,
}

impl<V> Dictionary<V> {
    fn new(values: V) -> Self {
        Self { values, indices: Vec::new() }
    }
}

/// The page of a column with a dictionary.
struct Index;

impl Index {
    fn put_page(indices: &mut Vec<u32>, distinct: usize, out: &mut Vec<u8>) -> Encoding {
        let width = pack::width(distinct.saturating_sub(1) as u64);
        out.push(width as u8);
        pack::put_runs(indices, width, out);
        indices.clear();
        Encoding::RLE_DICTIONARY
    }

    fn held_bytes(indices: &Vec<u32>) -> usize {
        indices.capacity() * size_of::<u32>()
    }
}

#[derive(Debug)]
enum Encoder {
    Texts(TextEncoder),
    Numbers(NumberEncoder),
}

/// A column's chunk of one row group, while it grows.
#[derive(Debug)]
pub(crate) struct Column {
    description: ColumnDescPtr,
    kind: Kind,
    encoder: Encoder,
    /// Of the page.
    levels: Levels,
    rows: u64,
    nulls: u64,
    search: Option<Search>,
    pages: Pages,
    dictionary: Option<(Vec<u8>, usize)>,
    encodings: Vec<PageEncodingStats>,
}

impl Column {
    pub(crate) fn new(description: ColumnDescPtr, flat: &Flat, choice: Choice) -> Self {
        let direct = choice.encoding.unwrap_or(Encoding::PLAIN);
        let encoder = match flat.kind {
            Kind::Text | Kind::Bytes => {
                Encoder::Texts(TextEncoder::new(flat.kind == Kind::Text, choice.dictionary, direct))
            }
            Kind::Int32 => Encoder::Numbers(NumberEncoder::new(true, choice.dictionary, direct)),
            Kind::Int64 => Encoder::Numbers(NumberEncoder::new(false, choice.dictionary, direct)),
        };
        Self {
            levels: Levels::new(flat.most()),
            description,
            kind: flat.kind,
            encoder,
            rows: 0,
            nulls: 0,
            search: None,
            pages: Pages::default(),
            dictionary: None,
            encodings: Vec::new(),
        }
    }

    /// Takes the rows of one leaf in.
    ///
    /// # Errors
    /// A page can't be written: a fault of ours.
    pub(crate) fn write(&mut self, leaf: &Leaf, codec: &mut Codec) -> Result<()> {
        let texts = match self.kind {
            Kind::Text => {
                let array = leaf.values.as_string::<i32>();
                Some(Values { offsets: array.value_offsets(), bytes: array.value_data() })
            }
            Kind::Bytes => {
                let array = leaf.values.as_binary::<i32>();
                Some(Values { offsets: array.value_offsets(), bytes: array.value_data() })
            }
            Kind::Int32 | Kind::Int64 => None,
        };
        let mut numbers = std::mem::take(&mut codec.numbers);
        numbers.clear();
        leaf.numbers(&mut numbers);
        let (mut row, mut value) = (0, 0);
        while row < leaf.rows {
            let mut rows = (PAGE_ROWS - self.levels.rows()).min(leaf.rows - row);
            let mut values = leaf.values_of(row, rows);
            let room = PAGE_BYTES.saturating_sub(self.encoder.page_bytes());
            while rows > 1 && texts.is_some_and(|texts| texts.length(value..value + values) > room) {
                rows /= 2;
                values = leaf.values_of(row, rows);
            }
            match (&mut self.encoder, texts) {
                (Encoder::Texts(encoder), Some(texts)) => encoder.write(texts, value..value + values),
                (Encoder::Numbers(encoder), _) => encoder.write(&numbers[value..value + values]),
                (Encoder::Texts(_), None) => unreachable!("a text column's leaf is text"),
            }
            self.levels.add(leaf.levels(row, rows), rows);
            self.nulls += (rows - values) as u64;
            row += rows;
            value += values;
            if self.levels.rows() == PAGE_ROWS || self.encoder.page_bytes() >= PAGE_BYTES {
                self.end_page(codec)?;
            }
            if self.encoder.dictionary_bytes() >= DICTIONARY_BYTES {
                self.end_page(codec)?;
                self.dictionary = self.encoder.take_dictionary();
            }
        }
        codec.numbers = numbers;
        Ok(())
    }

    /// How long the chunk would be if it ended here, about.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let ended = self.dictionary.as_ref().map_or(0, |(page, _)| page.len());
        self.pages.bytes() + self.encoder.page_bytes() + self.encoder.dictionary_bytes() + ended
    }

    /// Memory taken.
    pub(crate) fn held_bytes(&self) -> usize {
        let encoder = match &self.encoder {
            Encoder::Texts(encoder) => encoder.held_bytes(),
            Encoder::Numbers(encoder) => encoder.held_bytes(),
        };
        let ended = self.dictionary.as_ref().map_or(0, |(page, _)| page.capacity());
        size_of::<Self>() + encoder + ended + self.levels.held_bytes() + self.pages.bytes()
    }

    /// Ends the chunk: its pages, and what the footer says of them.
    ///
    /// # Errors
    /// As [`Column::write`].
    pub(crate) fn close(mut self, codec: &mut Codec) -> Result<(Pages, ColumnCloseResult)> {
        self.end_page(codec)?;
        let dictionary = self.dictionary.take().or_else(|| self.encoder.take_dictionary());
        let dictionary_bytes = match dictionary {
            Some((page, distinct)) => self.put_dictionary(page, distinct, codec)?,
            None => 0,
        };
        let statistics = match &self.encoder {
            Encoder::Texts(encoder) => encoder.statistics(self.nulls),
            Encoder::Numbers(encoder) => encoder.statistics(self.nulls),
        };
        let mut encodings: Vec<Encoding> = self.encodings.iter().map(|pages| pages.encoding).collect();
        encodings.push(Encoding::RLE);
        let bytes = self.pages.bytes();
        let metadata = ColumnChunkMetaData::builder(self.description)
            .set_compression(codec.compression().parquet())
            .set_encodings(encodings)
            .set_page_encoding_stats(self.encodings)
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(self.pages.raw_bytes() as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(dictionary_bytes as i64)
            .set_dictionary_page_offset((dictionary_bytes > 0).then_some(0))
            .set_statistics(statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes as u64,
            rows_written: self.rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((self.pages, close))
    }

    fn end_page(&mut self, codec: &mut Codec) -> Result<()> {
        let rows = self.levels.rows();
        if rows == 0 {
            return Ok(());
        }
        codec.raw.clear();
        self.levels.put_page(&mut codec.raw);
        let encoding = match &mut self.encoder {
            Encoder::Texts(encoder) => encoder.put_page(&mut codec.raw),
            Encoder::Numbers(encoder) => encoder.put_page(&mut codec.raw),
        };
        let search = match self.search {
            Some(search) => search,
            None => *self.search.insert(codec.search()?),
        };
        let raw_bytes = codec.raw.len();
        let page = Page::DataPage {
            buf: codec.compress(search)?.to_vec().into(),
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        codec.trim(BUFFER_BYTES);
        self.rows += rows as u64;
        self.pages.push(page, raw_bytes)?;
        self.count(PageType::DATA_PAGE, encoding);
        Ok(())
    }

    /// The dictionary's page goes before all others.
    fn put_dictionary(&mut self, page: Vec<u8>, distinct: usize, codec: &mut Codec) -> Result<usize> {
        let raw_bytes = page.len();
        codec.raw.clear();
        codec.raw.extend_from_slice(&page);
        let page = Page::DictionaryPage {
            buf: codec.compress(Search::Full)?.to_vec().into(),
            num_values: distinct as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        codec.trim(BUFFER_BYTES);
        self.count(PageType::DICTIONARY_PAGE, Encoding::PLAIN);
        self.pages.push_first(page, raw_bytes)
    }

    fn count(&mut self, page_type: PageType, encoding: Encoding) {
        let same = |pages: &&mut PageEncodingStats| pages.page_type == page_type && pages.encoding == encoding;
        match self.encodings.iter_mut().find(same) {
            Some(pages) => pages.count += 1,
            None => self.encodings.push(PageEncodingStats { page_type, encoding, count: 1 }),
        }
    }
}

impl Encoder {
    fn page_bytes(&self) -> usize {
        match self {
            Self::Texts(encoder) => encoder.page_bytes(),
            Self::Numbers(encoder) => encoder.page_bytes(),
        }
    }

    fn dictionary_bytes(&self) -> usize {
        match self {
            Self::Texts(encoder) => encoder.dictionary_bytes(),
            Self::Numbers(encoder) => encoder.dictionary_bytes(),
        }
    }

    fn take_dictionary(&mut self) -> Option<(Vec<u8>, usize)> {
        match self {
            Self::Texts(encoder) => encoder.take_dictionary(),
            Self::Numbers(encoder) => encoder.take_dictionary(),
        }
    }
}

//! The corner that speaks C: what `rdkafka` does not wrap. All `unsafe` of this crate is here.
//!
//! Why at all: a message at a time through `rdkafka` costs twice what a batch from a queue does,
//! and topic ids have no wrapper yet.

#![allow(unsafe_code, reason = "librdkafka's C interface, where its wrapper does not reach")]

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use lakeward_protocol::records::TimestampType;
use rdkafka::TopicPartitionList;
use rdkafka::bindings as c;
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;

use crate::context::Context;
use crate::oauth::Token;

/// A queue of fetched messages, outside of the consumer's own; partitions are forwarded to it.
pub(crate) struct Queue {
    queue: ptr::NonNull<c::rd_kafka_queue_t>,
    /// Lives longer than the queue: fields are dropped after `Drop::drop`.
    consumer: Arc<BaseConsumer<Context>>,
}

// SAFETY: librdkafka's queues may be used from any thread, several at once; the handle is freed
// once, by `drop`, which has it alone.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    pub(crate) fn new(consumer: Arc<BaseConsumer<Context>>) -> Self {
        // SAFETY: the client handle lives as long as `consumer`.
        let queue = unsafe { c::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Self { queue: ptr::NonNull::new(queue).expect("librdkafka allocates a queue"), consumer }
    }

    /// Sends what is fetched of a partition here instead of to the consumer's queue. Holds for good,
    /// across assignments. Call it before the partition is assigned: what was fetched before stays away.
    pub(crate) fn take_partition(&self, topic: &CStr, partition: i32) {
        // SAFETY: the client handle is alive, the name ends with a zero. The partition's handle is
        // destroyed here and used by nobody else; the forwarding outlives it (librdkafka counts the
        // references between the queues themselves).
        unsafe {
            let source =
                c::rd_kafka_queue_get_partition(self.consumer.client().native_ptr(), topic.as_ptr(), partition);
            assert!(!source.is_null(), "librdkafka makes partitions of consumers on demand");
            c::rd_kafka_queue_forward(source, self.queue.as_ptr());
            c::rd_kafka_queue_destroy(source);
        }
    }

    /// Waits up to `wait` until `batch` is *full*; takes what there was by then. With a wait of zero
    /// takes what is there. A [`wake`](Self::wake) ends the wait.
    pub(crate) fn consume(&self, batch: &mut Batch, most: usize, wait: Duration) -> usize {
        batch.clear();
        let most = most.min(batch.messages.len());
        let wait_ms = i32::try_from(wait.as_millis()).expect("waits are short");
        // SAFETY: `messages` has room for `most` pointers; librdkafka writes as many as it returns,
        // each to a message that is ours to destroy.
        let count =
            unsafe { c::rd_kafka_consume_batch_queue(self.queue.as_ptr(), wait_ms, batch.messages.as_mut_ptr(), most) };
        batch.count = usize::try_from(count).unwrap_or(0);
        batch.count
    }

    /// Ends a wait of [`consume`](Self::consume), now or the next one.
    pub(crate) fn wake(&self) {
        // SAFETY: the queue is alive; any thread may call it.
        unsafe { c::rd_kafka_queue_yield(self.queue.as_ptr()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: ours alone, and never used again. librdkafka drops what is still sent to it.
        unsafe { c::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// Messages taken from a [`Queue`], in librdkafka's memory until the next take.
pub(crate) struct Batch {
    messages: Vec<*mut c::rd_kafka_message_t>,
    count: usize,
}

// SAFETY: the messages are owned by the batch alone, and may be read and destroyed on any thread.
unsafe impl Send for Batch {}

/// One message, or an error of its partition.
pub(crate) struct Message<'a> {
    raw: &'a c::rd_kafka_message_t,
}

impl Batch {
    pub(crate) fn new(most: usize) -> Self {
        Self { messages: vec![ptr::null_mut(); most], count: 0 }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        // SAFETY: the first `count` pointers are messages that live until `clear`, which needs `&mut self`.
        self.messages[..self.count].iter().map(|raw| Message { raw: unsafe { &**raw } })
    }

    fn clear(&mut self) {
        for raw in &self.messages[..self.count] {
            // SAFETY: ours, and destroyed once: `count` is set to 0 below.
            unsafe { c::rd_kafka_message_destroy(*raw) }
        }
        self.count = 0;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn partition(&self) -> i32 {
        self.raw.partition
    }

    /// Of a message its offset; of an error the one it is about.
    #[inline]
    pub(crate) fn offset(&self) -> i64 {
        self.raw.offset
    }

    /// Is it an error, and which one?
    #[inline]
    pub(crate) fn error(&self) -> Option<RDKafkaErrorCode> {
        use c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        (self.raw.err != RD_KAFKA_RESP_ERR_NO_ERROR).then(|| self.raw.err.into())
    }

    /// The value, or the text of an error; `None` is a tombstone.
    #[inline]
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: a payload that is not null has `len` bytes, which live as long as the message.
        (!self.raw.payload.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(self.raw.payload.cast::<u8>(), self.raw.len) })
    }

    /// The key, if the record has one. Not of an error.
    #[inline]
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: a key that is not null has `key_len` bytes, which live as long as the message.
        (!self.raw.key.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(self.raw.key.cast::<u8>(), self.raw.key_len) })
    }

    /// Hands out the headers, in their order. Not of an error.
    pub(crate) fn headers(&self, mut each: impl FnMut(&'a [u8], Option<&'a [u8]>)) {
        use c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        let mut headers = ptr::null_mut();
        // SAFETY: a message of librdkafka, and a place to write to. The headers stay the message's own.
        let code = unsafe { c::rd_kafka_message_headers(self.raw, &raw mut headers) };
        for index in (code == RD_KAFKA_RESP_ERR_NO_ERROR).then_some(0..).into_iter().flatten() {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the headers live as long as the message; each place can be written. A name ends with a zero, and a
            // value that is not null has `length` bytes.
            unsafe {
                let code = c::rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut length);
                if code != RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
                let value = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), length));
                each(CStr::from_ptr(name).to_bytes(), value);
            }
        }
    }

    /// Milliseconds since 1970 and whose clock it was.
    #[inline]
    pub(crate) fn timestamp(&self) -> (i64, TimestampType) {
        use c::rd_kafka_timestamp_type_t as Kind;
        let mut kind = Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: a message of librdkafka, and a place to write to.
        let timestamp_ms = unsafe { c::rd_kafka_message_timestamp(self.raw, &raw mut kind) };
        let kind = match kind {
            Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => TimestampType::NotAvailable,
            Kind::RD_KAFKA_TIMESTAMP_CREATE_TIME => TimestampType::CreateTime,
            Kind::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => TimestampType::LogAppendTime,
        };
        (timestamp_ms, kind)
    }
}

/// The high watermark that came with the last fetch; asks nobody. `None` before the first.
pub(crate) fn cached_end(consumer: &BaseConsumer<Context>, topic: &CStr, partition: i32) -> Option<i64> {
    use c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
    let (mut low, mut high) = (-1, -1);
    // SAFETY: the client handle is alive, the name ends with a zero, both places can be written.
    let code = unsafe {
        c::rd_kafka_get_watermark_offsets(
            consumer.client().native_ptr(),
            topic.as_ptr(),
            partition,
            &raw mut low,
            &raw mut high,
        )
    };
    (code == RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
}

/// A topic's id. `None` from brokers that have none (before 2.8, and the mock cluster).
pub(crate) type TopicId = Option<[u8; 16]>;

/// What the client logs, in a queue of its own. In the consumer's queue each line stands before what the group says, and a
/// poll that waits for nothing ends at the first: a client that logs much (`debug`) would not hear that it is to let go.
pub(crate) struct Logs {
    queue: ptr::NonNull<c::rd_kafka_queue_t>,
    _consumer: Arc<BaseConsumer<Context>>,
}

// SAFETY: as for `Queue`.
unsafe impl Send for Logs {}

/// Lines that one drain hands on at most; the rest waits for the next.
const LOG_LINES: usize = 10_000;
/// Levels are syslog's (RFC 5424): up to here somebody has to look.
const SYSLOG_CRITICAL: i32 = 2;

impl Logs {
    pub(crate) fn of(consumer: Arc<BaseConsumer<Context>>) -> Self {
        let client = consumer.client().native_ptr();
        // SAFETY: the client handle lives as long as `consumer`; it counts its reference to the queue itself.
        let queue = unsafe { c::rd_kafka_queue_new(client) };
        let queue = ptr::NonNull::new(queue).expect("librdkafka allocates a queue");
        // SAFETY: as above. It is refused only to clients without `log.queue`, which `rdkafka` always sets.
        let refused = unsafe { c::rd_kafka_set_log_queue(client, queue.as_ptr()) };
        assert_eq!(refused, c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR, "rdkafka sets log.queue");
        Self { queue, _consumer: consumer }
    }

    /// Hands on what was logged since the last call.
    pub(crate) fn drain(&self) {
        for _ in 0..LOG_LINES {
            // SAFETY: the queue is ours. The event is destroyed once, after the last use of what it holds.
            unsafe {
                let event = c::rd_kafka_queue_poll(self.queue.as_ptr(), 0);
                if event.is_null() {
                    return;
                }
                Self::hand_on(event);
                c::rd_kafka_event_destroy(event);
            }
        }
    }

    /// # Safety
    /// `event` is an event that is not destroyed yet.
    unsafe fn hand_on(event: *mut c::rd_kafka_event_t) {
        let (mut facility, mut line, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the event is alive by contract, and so are the texts in it, which end with a zero and are there where
        // the answer is 0.
        unsafe {
            if c::rd_kafka_event_log(event, &raw mut facility, &raw mut line, &raw mut level) == 0 {
                let [facility, line] = [facility, line].map(|text| CStr::from_ptr(text).to_string_lossy());
                Context::logged(level <= SYSLOG_CRITICAL, facility.trim(), line.trim());
            }
        }
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        // SAFETY: ours alone, and never used again; the consumer, which still logs, lives longer.
        unsafe { c::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// What the brokers say of a topic.
#[derive(Clone, Copy)]
pub(crate) struct Described {
    pub(crate) id: TopicId,
    /// How many partitions it has.
    pub(crate) partitions: u32,
}

/// A question for a topic's id and partitions that is under way.
pub(crate) struct IdentityQuery {
    queue: ptr::NonNull<c::rd_kafka_queue_t>,
    _consumer: Arc<BaseConsumer<Context>>,
}

// SAFETY: as for `Queue`.
unsafe impl Send for IdentityQuery {}

impl IdentityQuery {
    /// Asks `broker`, or without one the controller (which not every cluster shows to its clients). The
    /// answer, or the failure, comes within `patience`.
    pub(crate) fn ask(
        consumer: &Arc<BaseConsumer<Context>>,
        topic: &CStr,
        broker: Option<i32>,
        patience: Duration,
    ) -> Self {
        let client = consumer.client().native_ptr();
        let patience_ms = i32::try_from(patience.as_millis()).expect("waits are short");
        let mut names = [topic.as_ptr()];
        // SAFETY: the client is alive; names and options are copied by DescribeTopics, so that both
        // are freed here; the queue is ours and outlives the question (librdkafka counts references).
        let queue = unsafe {
            let queue = c::rd_kafka_queue_new(client);
            let topics = c::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
            let options =
                c::rd_kafka_AdminOptions_new(client, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
            // They only refuse numbers that are out of range.
            c::rd_kafka_AdminOptions_set_request_timeout(options, patience_ms, ptr::null_mut(), 0);
            if let Some(broker) = broker {
                c::rd_kafka_AdminOptions_set_broker(options, broker, ptr::null_mut(), 0);
            }
            c::rd_kafka_DescribeTopics(client, topics, options, queue);
            c::rd_kafka_AdminOptions_destroy(options);
            c::rd_kafka_TopicCollection_destroy(topics);
            queue
        };
        let queue = ptr::NonNull::new(queue).expect("librdkafka allocates a queue");
        Self { queue, _consumer: Arc::clone(consumer) }
    }

    /// Waits up to `wait` for the answer.
    pub(crate) fn answer(&self, wait: Duration) -> Option<Result<Described, RDKafkaErrorCode>> {
        let wait_ms = i32::try_from(wait.as_millis()).expect("waits are short");
        // SAFETY: the queue is ours. The event is destroyed once, after the last use of what it holds.
        unsafe {
            let event = c::rd_kafka_queue_poll(self.queue.as_ptr(), wait_ms);
            if event.is_null() {
                return None;
            }
            let answer = Self::read(event);
            c::rd_kafka_event_destroy(event);
            Some(answer)
        }
    }

    /// # Safety
    /// `event` is an event that is not destroyed yet.
    unsafe fn read(event: *mut c::rd_kafka_event_t) -> Result<Described, RDKafkaErrorCode> {
        use c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        // SAFETY: the event is alive by contract; all pointers got from it live as long as it does,
        // and each is checked for null before it is followed.
        unsafe {
            let failed = c::rd_kafka_event_error(event);
            if failed != RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(failed.into());
            }
            let result = c::rd_kafka_event_DescribeTopics_result(event);
            if result.is_null() {
                return Err(RDKafkaErrorCode::Fail);
            }
            let mut count = 0;
            let topics = c::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
            if topics.is_null() || count == 0 {
                return Err(RDKafkaErrorCode::UnknownTopicOrPartition);
            }
            let topic = *topics;
            let error = c::rd_kafka_TopicDescription_error(topic);
            if !error.is_null() && c::rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(c::rd_kafka_error_code(error).into());
            }
            let mut count = 0;
            c::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
            let partitions = u32::try_from(count).expect("Kafka numbers partitions with an i32");
            let id = c::rd_kafka_TopicDescription_topic_id(topic);
            if id.is_null() {
                return Ok(Described { id: None, partitions });
            }
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&c::rd_kafka_Uuid_most_significant_bits(id).to_be_bytes());
            bytes[8..].copy_from_slice(&c::rd_kafka_Uuid_least_significant_bits(id).to_be_bytes());
            Ok(Described { id: (bytes != [0; 16]).then_some(bytes), partitions })
        }
    }
}

impl Drop for IdentityQuery {
    fn drop(&mut self) {
        // SAFETY: ours alone, and never used again.
        unsafe { c::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// Deletes what lies below these positions, and waits up to `patience` for the brokers' answers, one each.
pub(crate) fn delete_records(
    consumer: &BaseConsumer<Context>,
    below: &TopicPartitionList,
    patience: Duration,
) -> Result<Vec<(i32, Result<(), RDKafkaErrorCode>)>, RDKafkaErrorCode> {
    use c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
    let client = consumer.client().native_ptr();
    let patience_ms = i32::try_from(patience.as_millis()).expect("waits are short");
    // SAFETY: the client is alive; positions and options are copied by DeleteRecords, so that both are freed
    // here. The queue is ours and destroyed last; the event once, after the last use of what it holds. Pointers
    // are checked for null before they are followed, and `elems` has `cnt` elements.
    unsafe {
        let queue = c::rd_kafka_queue_new(client);
        let mut request = c::rd_kafka_DeleteRecords_new(below.ptr());
        let options = c::rd_kafka_AdminOptions_new(client, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DELETERECORDS);
        c::rd_kafka_AdminOptions_set_request_timeout(options, patience_ms, ptr::null_mut(), 0);
        c::rd_kafka_DeleteRecords(client, &raw mut request, 1, options, queue);
        c::rd_kafka_AdminOptions_destroy(options);
        c::rd_kafka_DeleteRecords_destroy(request);
        // A little longer than the client's own patience, which tells more.
        let event = c::rd_kafka_queue_poll(queue, patience_ms.saturating_add(1_000));
        let answer = if event.is_null() { Err(RDKafkaErrorCode::OperationTimedOut) } else { Ok(()) };
        let answer = answer.and_then(|()| {
            let failed = c::rd_kafka_event_error(event);
            let result = c::rd_kafka_event_DeleteRecords_result(event);
            if failed != RD_KAFKA_RESP_ERR_NO_ERROR || result.is_null() {
                return Err(failed.into());
            }
            let offsets = c::rd_kafka_DeleteRecords_result_offsets(result);
            if offsets.is_null() || (*offsets).elems.is_null() {
                return Err(RDKafkaErrorCode::Fail);
            }
            let count = usize::try_from((*offsets).cnt).expect("a count");
            let each = std::slice::from_raw_parts((*offsets).elems, count).iter();
            let told = |code: c::rd_kafka_resp_err_t| {
                if code == RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code.into()) }
            };
            Ok(each.map(|element| (element.partition, told(element.err))).collect())
        });
        if !event.is_null() {
            c::rd_kafka_event_destroy(event);
        }
        c::rd_kafka_queue_destroy(queue);
        answer
    }
}

/// A topic's name as C takes it.
pub(crate) fn c_name(topic: &str) -> Option<CString> {
    CString::new(topic).ok()
}

/// Gives a client the token to prove itself with from now on; from any thread.
///
/// Why not by `rdkafka`'s callback: it needs somebody who polls, and knows no extensions.
pub(crate) fn set_token<C: ClientContext>(client: &Client<C>, token: &Token) -> Result<(), String> {
    let text = |text: &str| CString::new(text).map_err(|_| "it has a zero in it".to_owned());
    let (value, principal) = (text(&token.value)?, text(&token.principal)?);
    let pairs = token.extensions.iter().flat_map(|(key, value)| [key, value]);
    let pairs = pairs.map(|part| text(part)).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<_> = pairs.iter().map(|part| part.as_ptr()).collect();
    let mut said = [0; 512];
    // SAFETY: the client is alive; all texts end with a zero and outlive the call, which copies them; `said` is as long
    // as it says.
    let code = unsafe {
        c::rd_kafka_oauthbearer_set_token(
            client.native_ptr(),
            value.as_ptr(),
            token.expires_ms,
            principal.as_ptr(),
            pointers.as_mut_ptr(),
            pointers.len(),
            said.as_mut_ptr(),
            said.len(),
        )
    };
    if code == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    // SAFETY: librdkafka ends what it writes with a zero, and it was all zeros before.
    let said = unsafe { CStr::from_ptr(said.as_ptr()) };
    Err(said.to_string_lossy().into_owned())
}

//! A committed transaction in brokers that the Kafka modules of Testcontainers for Rust start: transaction NAME TAG [ADDRESS].
//!
//! ADDRESS is one of this machine to publish ports at. Podman before version 5 does not say at which one a port is published
//! unless the port was given one, and the library leaves out ports without (`PortNotExposed`), whatever the image.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use testcontainers_modules::kafka::{apache, confluent};
use testcontainers_modules::testcontainers::bollard::models::PortBinding;
use testcontainers_modules::testcontainers::core::ContainerPort;
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{Image, ImageExt};

/// What takes longer hangs.
const HANG: Duration = Duration::from_secs(120);

fn commit_and_read(address: &str) -> Result<(), Box<dyn Error>> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("transactional.id", "t")
        .create()?;
    producer.init_transactions(HANG)?;
    producer.begin_transaction()?;
    producer
        .send(BaseRecord::<(), str>::to("orders").payload("committed"))
        .map_err(|(error, _)| error)?;
    producer.commit_transaction(HANG)?;
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("group.id", "g")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()?;
    consumer.subscribe(&["orders"])?;
    let read = consumer.iter().next().ok_or("nothing was read")??;
    match read.payload() {
        Some(b"committed") => Ok(()),
        other => Err(format!("read {other:?}").into()),
    }
}

fn start<I>(
    class: &str,
    module: I,
    port: ContainerPort,
    words: &[String],
) -> Result<(), Box<dyn Error>>
where
    I: Image + 'static,
{
    let mut asked = module.with_name(&words[0]).with_tag(&words[1]);
    if let Some(address) = words.get(2).cloned() {
        asked = asked.with_host_config_modifier(move |host| {
            let binding = PortBinding {
                host_ip: Some(address.clone()),
                host_port: Some("0".into()),
            };
            host.publish_all_ports = Some(false);
            host.port_bindings = Some(HashMap::from([(port.to_string(), Some(vec![binding]))]));
        });
    }
    let container = asked.start()?;
    commit_and_read(&format!(
        "127.0.0.1:{}",
        container.get_host_port_ipv4(port)?
    ))?;
    println!("{class}: committed and read");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    start(
        "apache::Kafka",
        apache::Kafka::default(),
        apache::KAFKA_PORT,
        &words,
    )?;
    start(
        "confluent::Kafka",
        confluent::Kafka::default(),
        confluent::KAFKA_PORT,
        &words,
    )
}

"""What `pid-quota uninstall` leaves to the operator."""

from broker.doctor.removal import broker_lines


def test_only_brokers_with_a_dynamic_setting_need_the_class_unloaded() -> None:
    settings = {
        number: {"metric.reporters": {"value": "a,pidquota.Class", "config_source": source}}
        for number, source in ((1, "STATIC_BROKER_CONFIG"), (2, "DYNAMIC_BROKER_CONFIG"), (3, "STATIC_BROKER_CONFIG"))
    }

    assert broker_lines(settings, "pidquota.Class", "pidquota.Holds")[:2] == [
        "run `pid-quota tap unload-class` first: the setting of broker 2 is dynamic",
        "take pidquota.Class out of metric.reporters on broker 1, 2, 3",
    ]

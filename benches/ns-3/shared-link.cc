// The packets of benches/shared-link-bare.toml in ns-3: the same sizes, rates and limits, for as many seconds as are asked for.
// Prints how many packets the bottleneck took and dropped, towards the operator.
//
// Packet sizes are those on the link: 20 bytes of IPv4, 8 of UDP or 20 of TCP, and the 2 of PPP are part of them.

#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{
constexpr uint32_t IP_AND_PPP = 20 + 2;

void
Constant(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port, const char* rate, uint32_t packet)
{
    UdpClientHelper client(address, port);
    client.SetAttribute("MaxPackets", UintegerValue(UINT32_MAX));
    client.SetAttribute("Interval", TimeValue(DataRate(rate).CalculateBytesTxTime(packet)));
    client.SetAttribute("PacketSize", UintegerValue(packet - IP_AND_PPP - 8));
    client.Install(from);
    UdpServerHelper(port).Install(to);
}
} // namespace

int
main(int argc, char* argv[])
{
    uint32_t seconds = 500;
    CommandLine cmd;
    cmd.AddValue("seconds", "simulated seconds", seconds);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(578 - IP_AND_PPP - 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));

    NodeContainer nodes(2);
    const Ptr<Node> robot = nodes.Get(0);
    const Ptr<Node> oper = nodes.Get(1);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("6Mbps"));
    link.SetChannelAttribute("Delay", StringValue("8ms"));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("14000B"));
    const NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper subnet("10.0.0.0", "255.255.255.252");
    const Ipv4InterfaceContainer addresses = subnet.Assign(devices);
    // The device's queue alone, as the scenario has one queue.
    TrafficControlHelper().Uninstall(devices);

    Constant(oper, robot, addresses.GetAddress(0), 1000, "688kbps", 86);
    Constant(robot, oper, addresses.GetAddress(1), 1000, "1096kbps", 137);
    Constant(robot, oper, addresses.GetAddress(1), 1001, "1904kbps", 150);
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(addresses.GetAddress(1), 1002));
    bulk.SetAttribute("MaxBytes", UintegerValue(0));
    bulk.Install(robot);
    PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 1002)).Install(oper);

    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const auto queue = DynamicCast<PointToPointNetDevice>(devices.Get(0))->GetQueue();
    std::cout << queue->GetTotalReceivedPackets() << " " << queue->GetTotalDroppedPackets() << std::endl;
    Simulator::Destroy();
}
